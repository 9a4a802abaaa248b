"""Whether a PostgreSQL transaction has written or locked anything, or holds a cursor open."""

from __future__ import annotations

from sqlalchemy import Connection

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
