"""The verbs of a restore: they hold what waits, and release it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.errors import ConfigurationError, InvalidMessage, RowsLocked
from ...domain.instance import UNENDED
from ...domain.priority import Priority
from ...store.bounded_waits import run_bounded
from ...store.connection.database import Database
from ...store.connection.list_parts import parts
from ...store.connection.row_locks import Change
from ...store.instance import hold, row
from ...store.instance.forget import forget_running
from ...store.instance.held import first_held
from ...store.jobs import row as jobs
from ..management.arguments import OnProgress, priority_of, several_ids
from ..management.audit import MOST_NAMED, Act, act_of, noted, unchanged
from ..management.corrections import in_parts, scanned
from ..management.results import Reason

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


def restored(runtime: Runtime, progress: OnProgress, by: Any) -> Restored:
    """Give the outbox a new id, and hold what waits; nothing is sent until that is done.

    It forgets what ran where the tables came from: workers, beat, and the state of the servers. It
    stops the jobs that ran there.
    """
    database, settings, act = runtime.database, runtime.settings, act_of(by, "restored")

    def begin(connection: Connection) -> None:
        now = database.now()
        changes = {"holding_at": now, "held_at": now}
        row.renew(connection, database, place, settings.instance, **changes)
        # What a job is still to retry here may have been retried, and sent, since the backup.
        jobs.stop_all(connection, database, "the outbox was restored")
        _note(act, connection, database, "begun")

    def end(connection: Connection) -> None:
        if not locked:
            changes: dict[str, Any] = {"holding_at": None}
            if not count and first_held(connection, database) is None:
                changes["held_at"] = None  # nothing waited, so nobody needs to look for it
            row.change(connection, database, **changes)
        _note(act, connection, database, f"{count} held" + (f", {locked} locked" if locked else ""))

    place = database.read(lambda connection: row.place(connection, database))
    run_bounded(database, begin)
    runtime.instance.forget()
    hold.end_leases(database, settings, random=runtime.random)
    run_bounded(database, lambda connection: forget_running(connection, database))
    count, left = in_parts(database, hold.hold, scanned(hold.scan_waiting(database), progress))
    locked = len(left) + database.read(lambda connection: hold.leased(connection, database))
    run_bounded(database, end)
    return Restored(held=count, locked=locked)


def moved(runtime: Runtime, by: Any) -> None:
    """Note that this is the original in a new place, or under a new name; nothing is held.

    Raises ConfigurationError while a `restored` has not ended: nothing would be sent all the same.
    """
    database, name, act = runtime.database, runtime.settings.instance, act_of(by, "moved")

    def renew(connection: Connection) -> None:
        noted = row.read(connection, database)
        if noted is not None and noted.is_holding:
            raise ConfigurationError(UNENDED)
        row.renew(connection, database, place, name)
        _note(act, connection, database, "sends from here")

    place = database.read(lambda connection: row.place(connection, database))
    run_bounded(database, renew)
    runtime.instance.forget()


def _note(act: Act | None, connection: Connection, database: Database, result: str) -> None:
    if act is not None:
        act.note(connection, database, result)


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
    by: Any,
) -> Released:
    """Release the held emails with these ids, or those that fulfil each condition given."""
    name, which = check_name("tag", tag, MAX_TAG), priority_of(priority)
    is_filtered = name is not None or which is not None or bool(scheduled)
    if sum((ids is not None, is_filtered, bool(everything))) != 1:
        raise InvalidMessage("ids", "give either ids, or what to release, or everything")
    database = runtime.database
    found: Iterable[Sequence[int]]
    if ids is not None:
        chosen_ids = several_ids(ids)
        found, act = parts(chosen_ids), act_of(by, "release", **_named(chosen_ids))
        only = chosen_ids[0] if len(chosen_ids) == 1 else None
        work = _releasing(act, only)
    else:
        only, act = None, act_of(by, "release", **what(name, which, scheduled=bool(scheduled)))
        work = _releasing(act)
        chosen = hold.scan_held(database, tag=name, priority=which, scheduled=bool(scheduled))
        found = scanned(chosen, progress)
    total, locked = in_parts(database, work, found)
    if only is not None and not total:
        _note_unchanged(database, act, only, locked)
    note_end(runtime)
    return Released(emails=total, locked=tuple(sorted(locked)))


def _releasing(act: Act | None, only: int | None = None) -> Change[int]:
    if act is None or only is None:
        return noted(hold.release, act, "released")

    def change(connection: Connection, database: Database, ids: list[int]) -> int:
        changed = hold.release(connection, database, ids)
        if changed:
            act.note(connection, database, "released", only)
        return changed

    return change


def _note_unchanged(
    database: Database, act: Act | None, only: int, locked: Collection[int]
) -> None:
    """Note why the only email was not released."""
    told = unchanged(Reason.LOCKED if locked else "is not held")
    if act is not None:
        run_bounded(database, lambda connection: act.note(connection, database, told, only))


def note_end(runtime: Runtime) -> None:
    """Note that nothing is held any more, if that is so.

    If the row stays locked, the next release does it: what this one has done is told in any case.
    """
    database = runtime.database
    if database.read(lambda connection: first_held(connection, database)) is None:
        with suppress(RowsLocked):
            run_bounded(database, lambda connection: row.change(connection, database, held_at=None))


def what(tag: str | None, priority: Priority | None, *, scheduled: bool) -> dict[str, Any]:
    """Return what is released, in the words of the audit."""
    named = None if priority is None else priority.name.lower()
    return {"tag": tag, "priority": named, "scheduled": "only" if scheduled else None}


def _named(ids: Sequence[int]) -> dict[str, Any]:
    if len(ids) == 1:
        return {}  # a column names it
    return {"ids": ids} if len(ids) <= MOST_NAMED else {"emails": len(ids)}
