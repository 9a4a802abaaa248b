"""Takes permits on PostgreSQL in one statement and one round trip.

Rows are locked in the order of their names. The decision uses the rows as they are after locking.
The arithmetic is that of `domain/scheduling/token_bucket.py`.

Other workers have a row locked for a moment, so the statement queues for it, with a bound. A host
that vanished while it had the row keeps it locked for long: see `shared_rows`.

For a table that is locked the statement waits without a bound, as all others do: PostgreSQL locks
its tables before it runs any of it. A limit that is set before would cost a round trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.exc import DBAPIError

from ...domain.scheduling.lanes import Wants
from ...domain.scheduling.token_bucket import LONGEST, SLACK
from ..connection.database import Database
from ..connection.error_codes import is_lock_timeout
from ..connection.shared_rows import PATIENCE, lock, no_longer_avoided, patiently

_ONCE = 0.5
"""Seconds for which a row is asked for that this process did not get the last time."""

_STATEMENT = """
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', %(patience)s, true) -- until the end of this transaction
), moment AS MATERIALIZED (
    SELECT clock_timestamp() + make_interval(secs => %(offset)s) AS now
), want AS MATERIALIZED (
    SELECT * FROM unnest(%(names)s::text[], %(costs)s::float8[], %(needed)s::bool[])
        AS w (name, cost, needed)
), mine AS MATERIALIZED (
    SELECT b.name, b.tat, b.taken_at FROM bound, {bucket} AS b
    WHERE b.name = ANY(%(names)s::text[]) ORDER BY b.name FOR UPDATE OF b
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
    (row,) = patiently(database, lambda: _taken(database, names, values))
    if row.rows < len(names):
        return None
    return -inf if row.lag is None else float(row.lag)


def _taken(database: Database, names: Sequence[str], values: dict[str, Any]) -> Sequence[Row[Any]]:
    """Run the statement. Raises LockedElsewhere where another transaction keeps rows locked."""
    bucket = database.tables.bucket
    is_known = any((bucket, name) in database.avoided for name in names)
    patience = f"{(_ONCE if is_known else PATIENCE) * 1000:.0f}ms"
    statement = _STATEMENT.format(bucket=database.name(bucket))
    rows = select(bucket.c.name)
    while True:
        try:
            found = database.run_alone(statement, {**values, "patience": patience})
        except DBAPIError as error:
            if not is_lock_timeout(error):
                raise
            # It raises LockedElsewhere for those that are locked; else they came free.
            database.run(lambda c: lock(c, database, rows, bucket.c.name, names))
            continue
        for name in names if database.avoided else ():
            no_longer_avoided(database, bucket, name)
        return found
