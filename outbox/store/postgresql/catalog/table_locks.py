"""Finds who has locked a whole table of the outbox's, and how long statements have waited for it.

A person's `LOCK TABLE`, an `ALTER TABLE` or a `CREATE INDEX` keeps each other statement waiting
until its transaction ends. Nothing of that is in the tables, and no statement fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, Row, String, TextualSelect, text

# A server before version 14 does not tell since when a lock is awaited. Then it is the statement's
# beginning, if the role may see it. Only reads and writes of rows count as waits: that a VACUUM
# waits for another one harms nobody.
_OURS = """
SELECT waiting.pid, waiting.granted, waiting.mode, CAST(relname AS text) AS name,
    waiting.mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') AS is_of_rows,
    CAST(EXTRACT(epoch FROM clock_timestamp() - COALESCE(
        CAST(to_jsonb(waiting) ->> 'waitstart' AS timestamptz), query_start, clock_timestamp()
    )) AS bigint) AS seconds
FROM pg_locks AS waiting
JOIN pg_class ON pg_class.oid = waiting.relation
LEFT JOIN pg_stat_activity AS activity ON activity.pid = waiting.pid
WHERE waiting.locktype = 'relation'
    AND waiting.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND waiting.relation IN (
        SELECT to_regclass(named) FROM unnest(CAST(:lock_names AS text[])) AS named
    )
    AND waiting.pid IS DISTINCT FROM pg_backend_pid()
"""

_WAITS = f"""
SELECT name, max(seconds) AS seconds FROM ({_OURS}) AS ours
WHERE is_of_rows AND NOT granted GROUP BY name
"""  # noqa: S608  (fixed texts)

# Who stands in a queue is no obstacle, but those are for whom the first of the queue waits.
_OBSTACLES = f"""
WITH ours AS MATERIALIZED ({_OURS}), first AS (
    SELECT pid, name FROM ours WHERE NOT granted AND NOT is_of_rows ORDER BY seconds DESC LIMIT 5
), obstacles AS (
    SELECT pid, name FROM ours WHERE granted AND mode IN (
        'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'
    )
    UNION
    SELECT unnest(pg_blocking_pids(pid)), name FROM first
), waits AS (
    SELECT name, max(seconds) AS seconds FROM ours WHERE is_of_rows AND NOT granted GROUP BY name
)
SELECT NULLIF(obstacles.pid, 0) AS pid, max(application_name) AS program, max(state) AS state,
    string_agg(DISTINCT obstacles.name, ', ' ORDER BY obstacles.name) AS names,
    COALESCE(max(waits.seconds), 0) AS seconds
FROM obstacles LEFT JOIN waits ON waits.name = obstacles.name
LEFT JOIN pg_stat_activity AS activity ON activity.pid = obstacles.pid
WHERE obstacles.pid IS NULL OR obstacles.pid NOT IN (SELECT pid FROM ours WHERE NOT granted)
GROUP BY obstacles.pid
HAVING COALESCE(max(waits.seconds), 0) >= :least
ORDER BY seconds DESC, pid LIMIT 3
"""  # noqa: S608


def waits(names: Sequence[str]) -> TextualSelect:
    """Return the statement for each of these tables that is waited for, and for how long."""
    statement = text(_WAITS).bindparams(lock_names=list(names))
    return statement.columns(name=String(), seconds=BigInteger())


def lines(connection: Connection, names: Sequence[str], least: float) -> list[str]:
    """Return a line for each session that keeps these tables from others, with the remedy.

    `least`: the seconds for which somebody must have waited. Other roles' sessions show less. A
    role's name is not told, as it may be an address.
    """
    found = connection.execute(text(_OBSTACLES), {"lock_names": list(names), "least": least})
    return [_line(row) for row in found]


def _line(row: Row[tuple[int | None, str | None, str | None, str, int]]) -> str:
    waited = f", and statements have waited for {row.seconds} s" if row.seconds else ""
    if row.pid is None:
        return f"a prepared transaction has locked {row.names}{waited}: see pg_prepared_xacts"
    told = ", ".join(filter(None, (_program(row.program), row.state)))
    return (
        f"PostgreSQL's session {row.pid}{f' ({told})' * bool(told)} has locked {row.names}{waited}:"
        f" have its transaction end, or SELECT pg_terminate_backend({row.pid})"
    )


def _program(name: str | None) -> str:
    return "" if not name or "@" in name else name
