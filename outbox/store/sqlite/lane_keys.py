"""Finds where emails wait on SQLite: walks through the lanes in the index of due emails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...domain.scheduling.claim_plan import LaneKey
from ..records import Mark

STATEMENT = """
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


def parameters(_marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return no parameters: SQLite's index keeps no entries of claimed emails."""
    return {}
