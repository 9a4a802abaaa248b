"""Looks at some of the emails of newsletters on MariaDB and MySQL, and reads no others.

An id that a row of another table names does not bound a `min(id)` there: each look-up would read
all emails. So the ids stand in the statement. In the index of due emails the emails that have ended
stand before those that wait. So each lane is asked for by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, func, select, text, union_all

from ...domain.priority import Priority
from ..connection.database import Database
from .index_hints import go_by

_LANES_AT_ONCE = 50


def probes(
    database: Database, value: ColumnElement[Any], ids: Sequence[int], tag: str | None
) -> Select[Any]:
    """Return the statement for `value` of the first email at or behind each of these ids.

    As `search/spread.py`.
    """
    email = database.tables.email
    first = f"SELECT min(id) AS id FROM {database.name(email)} WHERE id >= %d"  # noqa: S608
    if tag is not None:
        first += " AND tag = :tag"
    given = text(" UNION ALL ".join(first % number for number in ids))
    named = given if tag is None else given.bindparams(tag=tag)
    probe = named.columns(id=BigInteger()).subquery("probe")
    found = select(value.label("found")).select_from(probe)
    return found.outerjoin(email, email.c.id == probe.c.id)


def waiting_tags(connection: Connection, database: Database, most: int) -> Iterator[Select[Any]]:
    """Yield statements for the tags of bulk emails that wait, some of each end of each lane.

    The lanes share `most` emails of each end.
    """
    email = database.tables.email
    is_bulk = email.c.priority == int(Priority.BULK)
    lanes = _lanes(connection, database)
    order = (email.c.due_at, email.c.id)
    for start in range(0, len(lanes), _LANES_AT_ONCE):
        some = [
            go_by(select(email.c.tag.label("found")), email, "ix_outbox_email_due")
            .where(is_bulk, email.c.lane == lane, email.c.due_at.is_not(None))
            .order_by(*ends)
            .limit(max(1, most // len(lanes)))
            .subquery()
            for lane in lanes[start : start + _LANES_AT_ONCE]
            for ends in (order, [one.desc() for one in order])
        ]
        yield select(union_all(*(select(one) for one in some)).subquery().c.found).distinct()


def _lanes(connection: Connection, database: Database) -> list[str]:
    """Return the lanes in which bulk email waits.

    All priorities are asked for: with only a GROUP BY the server steps from group to group.
    """
    email = database.tables.email.c
    way = email.priority, email.lane
    rows = connection.execute(select(*way, func.min(email.due_at)).group_by(*way))
    return [lane for priority, lane, due in rows if priority == Priority.BULK and due is not None]
