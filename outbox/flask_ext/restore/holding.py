"""The verbs of a restore: they hold what waits, and release it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.errors import InvalidMessage
from ...store.connection.list_parts import parts
from ...store.instance import hold, row
from ..management.arguments import OnProgress, priority_of, several_ids
from ..management.corrections import in_parts, scanned

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What `restored` has done."""

    held: int  # emails that wait, and are now held
    locked: int  # emails that another transaction holds; while there are some, nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """What `release` has done."""

    emails: int  # how many were released
    locked: tuple[int, ...] = ()  # ids of emails that another transaction holds


def restored(runtime: Runtime, progress: OnProgress) -> Restored:
    """Give the outbox a new id, and hold what waits; nothing is sent until that is done."""
    database, settings = runtime.database, runtime.settings

    def begin(connection: Connection) -> None:
        now = database.now()
        changes = {"holding_at": now, "held_at": now}
        row.renew(connection, database, place, settings.instance, **changes)

    place = database.read(lambda connection: row.place(connection, database))
    database.run(begin)
    runtime.instance.forget()
    hold.end_leases(database, settings, random=runtime.random)
    held, left = in_parts(database, hold.hold, scanned(hold.scan_waiting(database), progress))
    locked = len(left) + database.read(lambda connection: hold.leased(connection, database))
    if not locked:
        database.run(lambda connection: row.change(connection, database, holding_at=None))
    return Restored(held=held, locked=locked)


def moved(runtime: Runtime) -> None:
    """Note that this is the original in a new place, or under a new name; nothing is held."""
    database, name = runtime.database, runtime.settings.instance
    place = database.read(lambda connection: row.place(connection, database))
    database.run(lambda connection: row.renew(connection, database, place, name))
    runtime.instance.forget()


def held(runtime: Runtime) -> tuple[hold.HeldEmails, ...]:
    """Return what is held, by tag and priority."""
    database = runtime.database
    return database.read(lambda connection: hold.held(connection, database))


def release(
    runtime: Runtime,
    ids: Any,
    *,
    tag: Any,
    priority: Any,
    scheduled: Any,
    everything: Any,
    progress: OnProgress,
) -> Released:
    """Release the held emails with these ids, or those that fulfil each condition given."""
    name, which = check_name("tag", tag, MAX_TAG), priority_of(priority)
    is_filtered = name is not None or which is not None or bool(scheduled)
    if sum((ids is not None, is_filtered, bool(everything))) != 1:
        raise InvalidMessage("ids", "give either ids, or what to release, or everything")
    database = runtime.database
    found: Iterable[Sequence[int]]
    if ids is not None:
        found = parts(several_ids(ids))
    else:
        chosen = hold.scan_held(database, tag=name, priority=which, scheduled=bool(scheduled))
        found = scanned(chosen, progress)
    total, locked = in_parts(database, hold.release, found)
    if total and not held(runtime):
        database.run(lambda connection: row.change(connection, database, held_at=None))
    return Released(emails=total, locked=tuple(sorted(locked)))
