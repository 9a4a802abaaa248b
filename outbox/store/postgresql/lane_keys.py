"""Finds where emails wait on PostgreSQL: walks through the lanes in the index of due emails.

PostgreSQL leaves entries of claimed emails in its index, so a walk does not look into a lane that
has a mark. Per priority one walk ends before the first marked lane, and another one begins behind
each marked lane. `until` is the lane before which a walk ends.

Each array stands in a SELECT of its own. PostgreSQL counts the elements of a bare array when it
plans, and then makes a new plan for each sweep, which takes longer than the sweep's look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...domain.scheduling.claim_plan import LaneKey
from ..records import Mark

_TOP = "chr(127)"  # no lane sorts after this: a lane is printable ASCII, in any encoding
STATEMENT = """
WITH RECURSIVE given AS (
    SELECT priority, lane COLLATE "C" AS lane, due_at, id
    FROM unnest(
        (SELECT :priorities ::int[]), (SELECT :lanes ::text[]), (SELECT :moments ::timestamptz[]),
        (SELECT :ids ::bigint[])
    ) AS each (priority, lane, due_at, id)
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
""".replace("{top}", _TOP)


def parameters(marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return the statement's parameters. A marked lane is returned unread, with its mark."""
    return {
        "priorities": [int(priority) for _, priority in marks],
        "lanes": [lane for lane, _ in marks],
        "moments": [mark.due_at for mark in marks.values()],
        "ids": [mark.id for mark in marks.values()],
    }
