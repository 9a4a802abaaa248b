"""Whether a PostgreSQL transaction has written or locked anything, or can only be rolled back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..connection.psycopg.prepared_statements import unprepared

# A transaction that has written or locked rows has an id and locks. A commit would also close the
# cursor of a streamed result. It frees a plain read's lock, or a predicate lock of SERIALIZABLE,
# without harm. A cursor without a name is this statement's own, with asyncpg. The locks are looked
# at last, because that costs most.
_HOLDS = """
SELECT CASE
    WHEN txid_current_if_assigned() IS NOT NULL THEN true
    WHEN EXISTS (SELECT FROM pg_cursors WHERE name <> '' AND NOT is_holdable) THEN true
    ELSE EXISTS (
        SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'
            AND mode NOT IN ('AccessShareLock', 'SIReadLock')
    )
END
"""


def holds(connection: Connection) -> bool:
    """Return whether a commit would make something permanent or close it; in one statement."""
    with unprepared(connection):
        return bool(connection.exec_driver_sql(_HOLDS).scalar_one())


_FAILED = 3
"""libpq's state of a transaction in which a statement has failed, as both of psycopg tell it."""


def is_undone(connection: Connection, codes: Collection[int | str | None]) -> bool:
    """Return whether the server would answer COMMIT with ROLLBACK, which is no error.

    The driver knows, or else it takes a statement: but only if one has failed, and no savepoint is
    sure to have taken that back.
    """
    driver: Any = connection.connection.driver_connection
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    if status is not None:
        return bool(status == _FAILED)
    return bool(codes) and not _answers(connection)


def _answers(connection: Connection) -> bool:
    try:
        connection.exec_driver_sql("SELECT 1")
    except DBAPIError:
        return False
    return True
