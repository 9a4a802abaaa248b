"""The ways on which emails wait: a step in the index for each lane and priority that holds some.

Many lanes could hold emails, a thousand domains over five routes, and few do. So nothing is asked
of a lane by its name: from each way that was found one step leads to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BigInteger, SmallInteger, TextualSelect, text

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey
from ..connection.database import Database
from ..schema.clock import MOMENT
from ..schema.column_types import LANE
from .low_water_mark import Mark

# PostgreSQL leaves entries of claimed emails in its index, so a walk does not look into a way that
# has a mark: it ends before the first one, and another one begins behind each. `until` is where.
_POSTGRESQL = """
WITH RECURSIVE given AS (
    SELECT priority, lane COLLATE "C" AS lane, due_at, id
    FROM unnest(:priorities ::int[], :lanes ::text[], :moments ::timestamptz[], :ids ::bigint[])
        AS each (priority, lane, due_at, id)
), mark AS (
    SELECT *, lead(lane, 1, {top}) OVER (PARTITION BY priority ORDER BY lane) AS until FROM given
), way (priority, lane, due_at, id, until) AS (
    SELECT priority, lane, due_at, id, until FROM mark
    UNION ALL
    SELECT first.*, begin.until
    FROM (
        SELECT p.priority, coalesce(min(mark.lane), {top}) AS until
        FROM (VALUES {priorities}) AS p (priority) LEFT JOIN mark USING (priority)
        GROUP BY p.priority
    ) AS begin CROSS JOIN LATERAL (
        SELECT e.priority::int, e.lane, e.due_at, e.id FROM {email} AS e
        WHERE e.due_at IS NOT NULL AND e.priority = begin.priority AND e.lane < begin.until
        ORDER BY e.lane, e.due_at, e.id LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.*, way.until
    FROM way CROSS JOIN LATERAL (
        SELECT e.priority::int, e.lane, e.due_at, e.id FROM {email} AS e
        WHERE e.due_at IS NOT NULL AND e.priority = way.priority
            AND e.lane > way.lane AND e.lane < way.until
        ORDER BY e.lane, e.due_at, e.id LIMIT 1
    ) AS next
) SELECT priority, lane, due_at, id FROM way
"""

_SQLITE = """
WITH RECURSIVE way (priority, lane, due_at, id) AS (
    SELECT e.priority, e.lane, e.due_at, e.id
    FROM (VALUES {priorities}) AS p JOIN {email} AS e ON e.id = (
        SELECT f.id FROM {email} AS f WHERE f.due_at IS NOT NULL AND f.priority = p.column1
        ORDER BY f.lane, f.due_at, f.id LIMIT 1
    )
    UNION ALL
    SELECT e.priority, e.lane, e.due_at, e.id
    FROM way JOIN {email} AS e ON e.id = (
        SELECT f.id FROM {email} AS f
        WHERE f.due_at IS NOT NULL AND f.priority = way.priority AND f.lane > way.lane
        ORDER BY f.lane, f.due_at, f.id LIMIT 1
    )
) SELECT priority, lane, due_at, id FROM way
"""

# Its index is a full one, and in a recursion it goes through that from the beginning each time. It
# steps from group to group by itself where nothing else is asked for.
_MARIADB = """
SELECT priority, lane, due_at, 0 AS id FROM (
    SELECT priority, lane, min(due_at) AS due_at FROM {email} GROUP BY priority, lane
) AS way WHERE due_at IS NOT NULL
"""

_STATEMENTS = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE}
_TOP = "U&'\\+10FFFF'"  # no lane sorts behind this one


def ways(database: Database, priorities: Collection[Priority] = tuple(Priority)) -> TextualSelect:
    """Select `priority`, `lane`, and `due_at` and `id` of the first email of each way.

    On PostgreSQL it takes `marked` as its parameters. On MariaDB and MySQL other priorities may be
    among the ways, the step is made for each lane and priority that has any email in the table, and
    the id is 0: an email due at the same moment may stand before.
    """
    statement = _STATEMENTS.get(database.dialect, _MARIADB).format(
        email=database.name(database.tables.email),
        priorities=", ".join(f"({int(priority)})" for priority in priorities),
        top=_TOP,
    )
    return text(statement).columns(
        priority=SmallInteger(), lane=LANE, due_at=MOMENT, id=BigInteger()
    )


def marked(database: Database, marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return the parameters of `ways`: marked ones are taken for found, where their mark stands."""
    if database.dialect != "postgresql":
        return {}
    return {
        "priorities": [int(priority) for _, priority in marks],
        "lanes": [lane for lane, _ in marks],
        "moments": [mark.due_at for mark in marks.values()],
        "ids": [mark.id for mark in marks.values()],
    }
