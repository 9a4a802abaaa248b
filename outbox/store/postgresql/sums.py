"""Sums the tallies up on PostgreSQL, in one statement: no tally travels to the worker.

Rows of the sums are written in the order of their key, so that no two folds can meet in a deadlock.
"""

from __future__ import annotations

from sqlalchemy import Connection

from ...domain.figures.spans import HOUR, MINUTE, TOTAL
from ..connection.database import Database
from ..schema.stat_tables import KEY

_STATEMENT = """
WITH taken AS (
    DELETE FROM {tally} WHERE id IN (SELECT id FROM {tally} ORDER BY id LIMIT %(most)s)
    RETURNING {key}, attempts
), summed AS (
    SELECT span, CASE WHEN span = {total} THEN 0 ELSE minute - minute %% (span / 60) END AS minute,
        {rest}, sum(CASE WHEN span = {total} THEN greatest(0, attempts) ELSE attempts END) AS number
    FROM taken CROSS JOIN (VALUES ({total}), ({minute}), ({hour})) AS each (span)
    GROUP BY span, 2, {rest}
), added AS (
    INSERT INTO {stat} AS s (span, {key}, attempts)
    SELECT span, {key}, number FROM summed WHERE number <> 0 ORDER BY span, {key}
    ON CONFLICT (span, {key}) DO UPDATE SET attempts = s.attempts + excluded.attempts
)
SELECT count(*) FROM taken
"""


def fold(connection: Connection, database: Database, most: int) -> int:
    """Move so many tallies into the sums; return how many it was."""
    statement: str = database.built(_worded)
    return int(connection.exec_driver_sql(statement, {"most": most}).scalar_one())


def _worded(database: Database) -> str:
    return _STATEMENT.format(
        tally=database.name(database.tables.tally),
        stat=database.name(database.tables.stat),
        key=", ".join(KEY),
        rest=", ".join(KEY[1:]),
        total=TOTAL,
        minute=MINUTE,
        hour=HOUR,
    )
