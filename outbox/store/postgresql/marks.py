"""Leaves marks of beat and of tasks on PostgreSQL: looks and replaces in one statement."""

from __future__ import annotations

from ..connection.database import Database

_STATEMENT = """
WITH moment AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp() + make_interval(secs => %(offset)s)))::bigint
        AS now
), old AS MATERIALIZED (
    SELECT mark.name FROM {counter} AS mark, moment
    WHERE mark.name = %(name)s
        AND (mark.value > moment.now OR mark.value <= moment.now - %(every)s)
    FOR UPDATE OF mark SKIP LOCKED
), renewed AS (
    UPDATE {counter} AS mark SET value = moment.now FROM old, moment WHERE mark.name = old.name
)
SELECT moment.now, EXISTS (SELECT FROM {counter} WHERE name = %(name)s) AS is_there FROM moment
"""


def renew(database: Database, name: str, every: float) -> int | None:
    """Do as `beat.renew_in_steps` does, and return the same."""
    values = {"offset": database.offset, "name": name, "every": int(every)}
    (found,) = database.run_alone(database.built(_worded), values)
    return None if found.is_there else int(found.now)


def _worded(database: Database) -> str:
    return _STATEMENT.format(counter=database.name(database.tables.counter))
