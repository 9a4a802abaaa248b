"""Probes that are spread evenly over ids: a few look-ups tell of millions of rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, cast, literal, select

from ..connection.database import Database

PROBES = 200
"""How many look-ups one statement makes, at most."""


def probes(
    database: Database,
    value: ColumnElement[Any],
    first: int,
    last: int,
    *among: ColumnElement[bool],
) -> Select[Any]:
    """Return the statement for `value` of the first email at or behind each of PROBES ids.

    The ids lie evenly between `first` and `last`. `among` is what an index has before the id. The
    value is null where no email is left.
    """
    email = database.tables.email.c
    step = max(1, (last - first) // (PROBES - 1))
    start = select(_number(first).label("id")).cte("probe", recursive=True)
    further = start.c.id + _number(step)
    probe = start.union_all(select(further).where(further <= _number(last)))
    found = select(value).where(*among, email.id >= probe.c.id).order_by(email.id).limit(1)
    return select(found.correlate(probe).scalar_subquery().label("found")).select_from(probe)


def _number(value: int) -> ColumnElement[int]:
    return cast(literal(value), BigInteger)
