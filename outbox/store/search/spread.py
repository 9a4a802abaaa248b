"""Probes that are spread evenly over ids: a few look-ups tell of millions of rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, cast, func, literal, select

from ..backend import backend_of
from ..connection.database import Database

PROBES = 200
"""How many look-ups one statement makes, if nothing else is said."""


def probes(
    database: Database,
    value: ColumnElement[Any],
    first: int,
    last: int,
    tag: str | None = None,
    count: int | None = None,
) -> Select[Any]:
    """Return the statement for `value` of the first email at or behind each of so many ids.

    The ids lie evenly between `first` and `last`. With a `tag` only its emails are looked at. The
    value is null where none is left. An id is looked for by itself, because the index alone has it:
    for another column PostgreSQL may go through all emails in the order of their ids.
    """
    step = max(1, (last - first) // ((count or PROBES) - 1))
    if (own := backend_of(database.dialect).probes) is not None:
        return own(database, value, range(first, last + 1, step), tag)
    email = database.tables.email.c
    start = select(_number(first).label("id")).cte("probe", recursive=True)
    further = start.c.id + _number(step)
    probe = start.union_all(select(further).where(further <= _number(last)))
    other = database.tables.email.alias("other")
    first_id = select(func.min(other.c.id)).where(other.c.id >= probe.c.id)
    if tag is not None:
        first_id = first_id.where(other.c.tag == tag)
    found = select(value).where(email.id == first_id.correlate(probe).scalar_subquery())
    return select(found.correlate(probe).scalar_subquery().label("found")).select_from(probe)


def _number(value: int) -> ColumnElement[int]:
    return cast(literal(value), BigInteger)
