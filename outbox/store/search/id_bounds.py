"""Between which ids the emails of a time lie, by bisection: no index has the time of creation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from ..connection.database import Database
from ..schema.clock import utc

SLACK = timedelta(minutes=10)
"""By how much ids and moments may differ in their order: a statement that copies emails takes its
ids and its moment at its start, and databases that take over have another clock."""

CLOSE = 1000
"""A bound need not be closer than this: reading so many rows takes less than finding it."""


class Bounds(NamedTuple):
    """The ids of a time lie above `low` and below `high`; None leaves an end open."""

    low: int | None = None
    high: int | None = None


def bounds(
    connection: Connection, database: Database, since: datetime | None, until: datetime | None
) -> Bounds:
    """Return bounds that no email created from `since` on and before `until` lies beyond."""
    if since is None and until is None:
        return Bounds()
    email = database.tables.email.c
    first, last = connection.execute(select(func.min(email.id), func.max(email.id))).one()
    if first is None:
        return Bounds()
    ends = first - 1, last + 1
    low = None if since is None else _cut(connection, database, _moved(since, -SLACK), *ends)[0]
    high = None if until is None else _cut(connection, database, _moved(until, SLACK), *ends)[1]
    return Bounds(low, high)


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return the moment so much later; itself at the end of the calendar."""
    try:
        return moment + by
    except OverflowError:
        return moment


def _cut(
    connection: Connection, database: Database, moment: datetime, low: int, high: int
) -> tuple[int, int]:
    """Return two ids: emails up to the one were created before, those from the other on after."""
    statement = database.built(_next)
    while high - low > CLOSE:
        middle = (low + high) // 2
        row = connection.execute(statement, {"from_id": middle, "to_id": high}).one_or_none()
        if row is not None and utc(row.created_at) < moment:
            low = row.id
        else:
            high = middle
    return low, high


def _next(database: Database) -> Select[int, datetime]:
    email = database.tables.email.c
    return (
        select(email.id, email.created_at)
        .where(email.id >= bindparam("from_id"), email.id < bindparam("to_id"))
        .order_by(email.id)
        .limit(1)
    )
