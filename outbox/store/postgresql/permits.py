"""Takes permits on PostgreSQL in one statement and one round trip.

Rows are locked in the order of their names. The decision uses the rows as they are after locking.
The arithmetic is that of `domain/scheduling/token_bucket.py`.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...domain.scheduling.lanes import Wants
from ...domain.scheduling.token_bucket import LONGEST, SLACK
from ..connection.database import Database

_STATEMENT = """
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() + make_interval(secs => %(offset)s) AS now
), want AS MATERIALIZED (
    SELECT * FROM unnest(%(names)s::text[], %(costs)s::float8[], %(needed)s::bool[])
        AS w (name, cost, needed)
), mine AS MATERIALIZED (
    SELECT name, tat, taken_at FROM {bucket} WHERE name = ANY(%(names)s::text[])
    ORDER BY name FOR UPDATE
), found AS MATERIALIZED (
    SELECT count(*) AS rows,
        max(extract(epoch FROM mine.tat - greatest(mine.taken_at, moment.now))::float8)
            FILTER (WHERE want.needed) AS lag
    FROM moment, mine JOIN want ON want.name = mine.name
), taken AS (
    UPDATE {bucket} AS b
    SET tat = least(moment.now + make_interval(secs => %(longest)s), greatest(
            b.tat - (greatest(b.taken_at, moment.now) - moment.now),
            moment.now - make_interval(secs => %(slack)s)
        ) + make_interval(secs => want.cost)), taken_at = moment.now
    FROM want, moment, found
    WHERE b.name = want.name AND found.rows = cardinality(%(names)s::text[])
        AND coalesce(found.lag, '-infinity') <= -%(margin)s::float8
)
SELECT rows, lag FROM found
"""


def take(database: Database, costs: Wants, wants: Wants, margin: float) -> float | None:
    """Take permits as `rate_limits.take_in_steps` does, and return the same."""
    names = sorted(costs)
    values: dict[str, Any] = {
        "offset": database.offset,
        "names": names,
        "costs": [rate.interval * permits for rate, permits in map(costs.__getitem__, names)],
        "needed": [name in wants for name in names],
        "slack": SLACK,
        "longest": LONGEST,
        "margin": margin,
    }
    statement = _STATEMENT.format(bucket=database.name(database.tables.bucket))
    (row,) = database.run_alone(statement, values)
    if row.rows < len(names):
        return None
    return -inf if row.lag is None else float(row.lag)
