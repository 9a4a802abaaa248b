"""Turns the mark of health on PostgreSQL in one statement, which ends within seconds."""

from __future__ import annotations

from ...connection.database import Database
from .local_commit import LOCALLY

_STATEMENT = """
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp() + make_interval(secs => %(offset)s)))::bigint
        AS now, set_config('lock_timeout', %(patience)s, true), {locally}
), turned AS (
    UPDATE {counter} AS mark
    SET value = CASE WHEN CAST(%(healthy)s AS boolean) THEN 0 ELSE moment.now END FROM moment
    WHERE mark.name = %(name)s AND (mark.value <> 0) = CAST(%(healthy)s AS boolean)
    RETURNING mark.name
), first_one AS (
    INSERT INTO {counter} (name, value) SELECT CAST(%(name)s AS text), moment.now FROM moment
    WHERE NOT CAST(%(healthy)s AS boolean)
        AND NOT EXISTS (SELECT FROM {counter} WHERE name = %(name)s)
    ON CONFLICT DO NOTHING RETURNING name
)
SELECT name FROM turned UNION ALL SELECT name FROM first_one
"""


def turn(database: Database, name: str, *, healthy: bool, patience: float) -> bool:
    """Do as `health_mark.turn_in_steps` does, and return the same.

    The commit waits for no synchronous replica. Raises the driver's error if the row stays locked.
    """
    milliseconds = f"{max(1, round(patience * 1000)):d}ms"  # 0 would be no bound
    values = {"offset": database.offset, "patience": milliseconds, "name": name, "healthy": healthy}
    return bool(database.run_alone(database.built(_worded), values))


def _worded(database: Database) -> str:
    return _STATEMENT.format(counter=database.name(database.tables.counter), locally=LOCALLY)
