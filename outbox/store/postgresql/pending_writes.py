"""Whether a PostgreSQL transaction has written or locked anything, or holds a cursor open."""

from __future__ import annotations

from sqlalchemy import Connection

from ..connection.prepared_statements import unprepared

# Rows that are written or locked come with a transaction's id, and with locks. A commit would close
# a cursor, such as a streamed result has. A lock of a plain read, or a note of SERIALIZABLE's, it
# frees without harm. A cursor without a name is this statement's own, with asyncpg. The locks come
# last: that look is the dearest.
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
    """Return whether a commit would commit something, or end it; in one statement."""
    with unprepared(connection):
        return bool(connection.exec_driver_sql(_HOLDS).scalar_one())
