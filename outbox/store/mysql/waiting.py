"""Finds the emails that wait on MariaDB and MySQL, way by way, and reads none that has ended.

There the index of due emails has the ended ones too: in each way they stand before those that wait.
A look-up by the equality of lane and priority reads all of them, whatever is asked of `due_at`. So
each way is the bounds of a range, for which the server searches anew ("Range checked for each
record"). It does so only if every bound is the way's: beside a constant one, it reads the whole
index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Label,
    Select,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.mysql import DATETIME

from ..connection.database import Database
from .index_hints import go_by


def emails(
    database: Database,
    way: CTE,
    compare: Callable[[Any, Any], ColumnElement[bool]],
    moment: ColumnElement[Any],
    _limit: int,
) -> Select[*tuple[Any, ...]]:
    """Return the statement for the emails of all ways whose due time compares so to the moment."""
    one: Label[int] = literal_column("1", Integer).label("one")
    of_the_way = func.coalesce(cast(moment, DATETIME(fsp=6)), way.c.due_at)  # no constant
    due_at = database.tables.email.c.due_at
    return first(database, way, one).where(compare(due_at, of_the_way))


def first(
    database: Database, way: FromClause, *columns: ColumnElement[Any]
) -> Select[*tuple[Any, ...]]:
    """Return the statement for columns of the emails that wait, in the order of the ways."""
    email = database.tables.email
    bounds = (
        email.c.priority >= way.c.priority,
        email.c.priority <= way.c.priority,
        email.c.lane >= way.c.lane,
        email.c.lane <= way.c.lane,
        email.c.due_at >= way.c.due_at,
    )
    statement = select(*columns).select_from(way).join(email, bounds[0]).where(*bounds[1:])
    return go_by(statement, email, "ix_outbox_email_due").prefix_with("STRAIGHT_JOIN")
