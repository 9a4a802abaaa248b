"""Counts due emails by lane and priority on PostgreSQL. The pairs and their marks are arrays.

The statement is planned once, as the one in `lane_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...domain.scheduling.claim_plan import LaneKey
from ..records import Mark
from . import lane_keys

STATEMENT = """
SELECT way.priority, way.lane, found.*
FROM unnest(
    (SELECT :priorities ::int[]), (SELECT :lanes ::text[]), (SELECT :moments ::timestamptz[]),
    (SELECT :ids ::bigint[]), (SELECT :limits ::bigint[])
) AS way (priority, lane, due_at, id, emails)
CROSS JOIN LATERAL (
    SELECT count(*) AS emails, min(due_at) AS due_at, min(id) AS id FROM (
        SELECT e.due_at, e.id FROM {email} AS e
        WHERE e.priority = way.priority AND e.lane = way.lane COLLATE "C"
            AND e.due_at <= :now AND (e.due_at, e.id) >= (way.due_at, way.id)
        ORDER BY e.due_at, e.id LIMIT way.emails
    ) AS seen
) AS found
"""


def parameters(starts: Mapping[LaneKey, Mark], limits: Mapping[LaneKey, int]) -> dict[str, Any]:
    """Return the statement's parameters without `now`: the pairs, and how far to count each."""
    return lane_keys.parameters(starts) | {"limits": [limits[way] for way in starts]}
