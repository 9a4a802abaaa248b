"""A suspicion against a server: it stays in use, and the next emails tell whose fault it was.

It stands in the row of the server's circuit breaker until an email is judged or its time is over.
Each function here that changes the row raises LockedElsewhere if the row stays locked.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, false, or_, true, update

from ....domain.delivery.breaker_timing import SUSPICION_SECONDS, BreakerState, Cause
from ...connection.database import Database
from ...connection.shared_rows import change_or_insert, run_patiently
from ...records import Breaker
from ...schema.column_types import REPLY_LENGTH
from ..circuit_breaker import counts, is_in, lock_breaker, read

SILENCE = "an email got no reply for a long time"
"""The reason for suspecting a server that was silent to an email."""


def suspect(
    database: Database,
    server: str,
    *,
    email_id: int,
    reason: str,
    alert: bool = False,
    seconds: float = SUSPICION_SECONDS,
) -> None:
    """Keep a suspicion that no email has cleared; if the breaker is open, change nothing.

    It lasts for `seconds`. The server stays in use: the next email that differs tells whose fault
    it was. With an `alert` a person must see to it, for example if the server lacks an extension.
    If the server was silent to an email before, that email stays the suspect.
    """
    table = database.tables.breaker
    # The reason first: MariaDB and MySQL assign from left to right, and it asks for the alert.
    values = {
        "reason": case((table.c.alert == true(), table.c.reason), else_=reason[:REPLY_LENGTH]),
        "retry_at": database.now(seconds),
        "seen_at": database.now(),
        "suspect_id": case((table.c.cause == Cause.SILENCE, table.c.suspect_id), else_=email_id),
        "alert": or_(table.c.alert == true(), true() if alert else false()),
    }  # fmt: skip
    suspected = is_in(database, server, BreakerState.SUSPECTED)
    again = update(table).where(suspected).ordered_values(*values.items())
    row = {
        "state": BreakerState.SUSPECTED, "cause": Cause.EMAILS, "failures": 0, "alert": alert,
        "opened_at": database.now(), "reason": reason[:REPLY_LENGTH], "suspect_id": email_id,
        "retry_at": database.now(seconds), "seen_at": database.now(),
    }  # fmt: skip

    def work(connection: Connection) -> bool:
        found = lock_breaker(connection, database, server)
        if found is not None and found.state == BreakerState.OPEN:
            return True
        connection.execute(delete(table).where(_is_over(database, server)))
        return connection.execute(again).rowcount > 0

    change_or_insert(database, work, table, server=server, **row)


def silent(database: Database, server: str, *, email_id: int, reason: str) -> Breaker | None:
    """Note that a server was silent to an email for a long time; return its row, None if open.

    This suspicion stays until its time is over, even if other emails are judged, so that emails
    like this one are sent last. Its `failures` count such emails in a row since `opened_at`.
    """
    table = database.tables.breaker

    values: dict[str, Any] = {
        "cause": Cause.SILENCE, "suspect_id": email_id,
        "retry_at": database.now(SUSPICION_SECONDS), "seen_at": database.now(),
    }  # fmt: skip
    begun = {"opened_at": database.now()}
    told = {"reason": reason[:REPLY_LENGTH]}

    def work(connection: Connection) -> bool:
        lock_breaker(connection, database, server)
        connection.execute(delete(table).where(_is_over(database, server)))
        found = read(connection, database).get(server)
        if found is None or found.is_open:
            return found is not None
        count = found.failures + (found.suspect_id != email_id or not found.failures)
        changes = values | ({} if found.failures else begun) | ({} if found.alert else told)
        changed = update(table).where(is_in(database, server, BreakerState.SUSPECTED))
        connection.execute(changed.values(**changes, failures=count))
        return True

    first = {"state": BreakerState.SUSPECTED, "alert": False, "failures": 1, **begun, **told}
    change_or_insert(database, work, table, server=server, **first, **values)
    row = database.read(lambda connection: read(connection, database)).get(server)
    return None if row is None or row.is_open else row


def clear(database: Database, server: str, *, alert: bool = False) -> None:
    """Forget a suspicion, because the server judged an email on its own merits.

    An alert stands, unless `alert` says that it is over too. A suspicion of silence stays, but its
    count of emails in a row starts anew.
    """
    table = database.tables.breaker
    suspected, is_silence = is_in(database, server, BreakerState.SUSPECTED), _is_silence(database)
    suspicion = suspected & ~is_silence & (true() if alert else table.c.alert == false())
    silences = suspected & is_silence
    values: dict[str, Any] = {"failures": 0}
    if alert:
        values |= {"alert": False, "reason": SILENCE}
    else:
        silences &= table.c.failures > 0

    def work(connection: Connection) -> None:
        lock_breaker(connection, database, server)
        connection.execute(delete(table).where(suspicion))
        connection.execute(update(table).where(silences).values(**values))

    run_patiently(database, work)


def _is_silence(database: Database) -> ColumnElement[bool]:
    return database.tables.breaker.c.cause == Cause.SILENCE


def _is_over(database: Database, server: str) -> ColumnElement[bool]:
    return and_(database.tables.breaker.c.server == server, ~counts(database))
