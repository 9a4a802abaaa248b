"""The verbs that hold emails back: pauses, and the suppression list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import check_name
from ...domain.errors import InvalidMessage
from ...domain.header.address import MAX_ADDRESS, check_address
from ...store.bounded_waits import run_bounded
from ...store.connection.database import Database
from ...store.control import pause as pauses
from ...store.control import suppression
from ...store.report_records import Pause, Suppression
from ...store.schema.column_types import REASON_LENGTH
from .arguments import limit_of, priority_of
from .audit import Act, act_of, unchanged
from .results import Suppressions

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

_PAIRS = "must be pairs of an address and a reason"


def suppress(runtime: Runtime, address: Any, reason: Any, by: Any) -> bool:
    """Put an address on the list; False where it was on it already."""
    whom, why = check_address(address, "address"), _reason(reason)
    database, act = runtime.database, act_of(by, "suppress", addresses=1)
    return _changed(
        database,
        lambda c: suppression.suppress(c, database, whom, why),
        act,
        ("added", unchanged("was on the list already")),
    )


def suppress_many(runtime: Runtime, rows: Iterable[Any], by: Any) -> Suppressions:
    """Put addresses with their reasons on the list, in one transaction; tell which are wrong."""
    if not isinstance(rows, Iterable):
        raise InvalidMessage("rows", _PAIRS)
    reasons, wrong, total = dict[str, str](), dict[int, str](), 0
    for place, row in enumerate(rows):
        address, reason = _pair(row)
        total += 1
        try:
            reasons.setdefault(check_address(address, "address"), _reason(reason or "by hand"))
        except InvalidMessage as error:
            wrong[place] = error.rule
    act, database = act_of(by, "suppress", addresses=len(reasons)), runtime.database

    def change(connection: Connection) -> int:
        added = suppression.suppress_all(connection, database, reasons)
        if act is not None:
            act.note(connection, database, f"{added} added, {len(reasons) - added} unchanged")
        return added

    added = run_bounded(database, change) if reasons else 0
    return Suppressions(added=added, known=total - len(wrong) - added, wrong=wrong)


def _pair(row: Any) -> tuple[Any, Any]:
    try:
        address, reason = row
    except (TypeError, ValueError):
        raise InvalidMessage("rows", _PAIRS) from None
    return address, reason


def _reason(given: Any) -> str:
    why = check_name("reason", given, REASON_LENGTH)
    if why is None:
        raise InvalidMessage("reason", f"must be text of 1 to {REASON_LENGTH} characters")
    return why


def unsuppress(runtime: Runtime, address: Any, by: Any, since: datetime | None = None) -> bool:
    """Take an address off the list; False where it was not on it.

    With `since` only the entry that was made at that moment is removed.
    """
    whom, database = check_address(address, "address"), runtime.database

    def why(connection: Connection) -> str:
        is_anew = since and suppression.suppressed(connection, database, address=whom)
        return unchanged("was put on the list anew since" if is_anew else "was not on the list")

    return _changed(
        database,
        lambda c: suppression.allow(c, database, whom, since),
        act_of(by, "unsuppress", addresses=1),
        ("removed", why),
    )


def suppressed(
    runtime: Runtime, *, address: Any, after: Any, limit: Any
) -> tuple[Suppression, ...]:
    """Return the list by address, or a part of it."""
    database, most = runtime.database, None if limit is None else limit_of(limit)
    only = None if address is None else check_address(address, "address")
    last = check_name("after", after, MAX_ADDRESS)
    return database.read(
        lambda c: suppression.suppressed(c, database, address=only, after=last, limit=most)
    )


def pause(runtime: Runtime, priority: Any, by: Any) -> bool:
    """Pause a priority, or everything; False where it was paused already."""
    which, database = priority_of(priority), runtime.database
    return _changed(
        database,
        lambda c: pauses.pause(c, database, which),
        act_of(by, "pause", scope=pauses.scope_of(which)),
        ("paused", unchanged("was paused already")),
    )


def resume(runtime: Runtime, priority: Any, by: Any, since: datetime | None = None) -> bool:
    """Resume a priority, or everything; False where it was not paused.

    With `since` only the pause that began at that moment is lifted.
    """
    which, database = priority_of(priority), runtime.database
    scope = pauses.scope_of(which)

    def why(connection: Connection) -> str:
        is_anew = since is not None and scope in pauses.paused(connection, database)
        return unchanged("was paused anew since" if is_anew else "was not paused")

    return _changed(
        database,
        lambda c: pauses.resume(c, database, which, since),
        act_of(by, "resume", scope=scope),
        ("resumed", why),
    )


def paused(runtime: Runtime) -> tuple[Pause, ...]:
    """Return the pauses, by scope."""
    database = runtime.database
    return database.read(lambda c: pauses.pauses(c, database))


def _changed(
    database: Database,
    work: Callable[[Connection], bool],
    act: Act | None,
    words: tuple[str, str | Callable[[Connection], str]],
) -> bool:
    """Run `work` and write the audit in one transaction; return whether it changed anything."""

    def change(connection: Connection) -> bool:
        done = work(connection)
        if act is not None:
            told = words[0] if done else words[1]
            act.note(connection, database, told if isinstance(told, str) else told(connection))
        return done

    return run_bounded(database, change)
