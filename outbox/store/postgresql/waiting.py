"""Finds the emails that wait on PostgreSQL, way by way, up to a limit.

The order within a way keeps the planner to the index of due emails. Without it, a planner that
expects many due emails would read the whole table, finished emails included, until it has found so
many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Integer,
    Label,
    Select,
    literal_column,
    select,
    true,
)

from ..connection.database import Database


def emails(
    database: Database,
    way: CTE,
    compare: Callable[[Any, Any], ColumnElement[bool]],
    moment: ColumnElement[Any],
    limit: int,
) -> Select[*tuple[Any, ...]]:
    """Return the statement for up to so many emails of each way whose due time compares so."""
    email = database.tables.email.c
    one: Label[int] = literal_column("1", Integer).label("one")
    found = (
        select(one)
        .where(email.priority == way.c.priority, email.lane == way.c.lane)
        .where(compare(email.due_at, moment))
        .order_by(email.due_at, email.id)
        .limit(literal_column(str(limit)))
        .lateral("each")
    )
    return select(found.c.one).select_from(way.join(found, true()))
