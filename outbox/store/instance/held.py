"""Looks at what is held: a bounded number of emails, by the index of due emails.

In each lane the held emails stand behind all others. So their number costs a look nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, func, select, union_all

from ...domain.priority import Priority
from ..connection.database import Database
from ..due_times import is_held
from ..queries.reports import summary
from ..queries.standstill import MOST_COUNTED
from ..queries.sweep.lane_keys import marked, ways
from ..report_records import EmailSummary
from ..schema.clock import utc
from .hold import HeldEmails

_LANES_AT_ONCE = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldGlance:
    """What a page shows of the held emails."""

    emails: int  # how many there are; at most 10,000 are counted
    groups: tuple[HeldEmails, ...]  # of those that were counted, by tag and priority, most first
    more_groups: int  # how many groups were not asked for
    first: tuple[EmailSummary, ...]  # some of the held emails, of each lane the oldest first


def glance(connection: Connection, database: Database, *, groups: int, emails: int) -> HeldGlance:
    """Return how many emails are held, and the largest of the groups and the first of the emails.

    Two statements for 200 lanes read at most MOST_COUNTED emails.
    """
    email = database.tables.email
    held, total = list[HeldEmails](), 0
    first = list[EmailSummary]()
    for lanes in _lanes(connection, database):
        some = _some(database, lanes, MOST_COUNTED - total, email.c.id)
        found = _groups(connection, database, some)
        held, total = [*held, *found], total + sum(one.emails for one in found)
        if len(first) < emails:
            rows = connection.execute(_some(database, lanes, emails - len(first), *email.c))
            first += [EmailSummary(**summary(row)) for row in rows]
        if total >= MOST_COUNTED:
            break
    largest = sorted(_merged(held), key=lambda one: (-one.emails, one.tag or "", one.priority))
    return HeldGlance(
        emails=total,
        groups=tuple(largest[:groups]),
        more_groups=max(0, len(largest) - groups),
        first=tuple(first),
    )


def first_held(connection: Connection, database: Database) -> int | None:
    """Return the lowest id of a held email, or None where none is held."""
    found = [
        row.id
        for lanes in _lanes(connection, database)
        for row in connection.execute(
            union_all(*(_of_lane(database, lane, 1, database.tables.email.c.id) for lane in lanes))
        )
    ]
    return min(found, default=None)


_Lane = tuple[str, int]


def _lanes(connection: Connection, database: Database) -> Iterator[Sequence[_Lane]]:
    """Yield the lanes and priorities in which any email waits, so many at once."""
    rows = connection.execute(ways(database), marked(database, {})).all()
    found = sorted((row.lane, row.priority) for row in rows)
    for start in range(0, len(found), _LANES_AT_ONCE):
        yield found[start : start + _LANES_AT_ONCE]


def _of_lane(
    database: Database, lane: _Lane, most: int, *columns: ColumnElement[Any]
) -> Select[Any]:
    email = database.tables.email
    name, priority = lane
    which = email.c.due_at.is_not(None), email.c.priority == priority, email.c.lane == name
    held = select(*columns).where(*which, is_held(email)).order_by(email.c.id).limit(most)
    return select(held.subquery())


def _some(
    database: Database, lanes: Sequence[_Lane], most: int, *columns: ColumnElement[Any]
) -> Select[Any]:
    """Return the statement for up to `most` held emails of these lanes."""
    each = union_all(*(_of_lane(database, lane, most, *columns) for lane in lanes))
    return select(each.subquery()).limit(most)


def _groups(connection: Connection, database: Database, some: Select[Any]) -> list[HeldEmails]:
    email, chosen = database.tables.email, some.subquery("chosen")
    to_come = func.sum(case((email.c.send_at > database.now(), 1), else_=0))
    statement = (
        select(email.c.tag, email.c.priority, func.count().label("emails"),
               to_come.label("scheduled"), func.min(email.c.created_at).label("oldest"))
        .select_from(chosen.join(email, email.c.id == chosen.c.id))
        .group_by(email.c.tag, email.c.priority)
    )  # fmt: skip
    return [
        HeldEmails(
            tag=row.tag,
            priority=Priority(row.priority),
            emails=row.emails,
            scheduled=int(row.scheduled),
            oldest=utc(row.oldest),
        )
        for row in connection.execute(statement)
    ]


def _merged(held: Sequence[HeldEmails]) -> list[HeldEmails]:
    """Return the groups, each once: a tag may be in several lanes."""
    found = dict[tuple[str | None, Priority], HeldEmails]()
    for one in held:
        key = one.tag, one.priority
        other = found.get(key)
        found[key] = one if other is None else _together(one, other)
    return list(found.values())


def _together(one: HeldEmails, other: HeldEmails) -> HeldEmails:
    return HeldEmails(
        tag=one.tag,
        priority=one.priority,
        emails=one.emails + other.emails,
        scheduled=one.scheduled + other.scheduled,
        oldest=min(one.oldest, other.oldest),
    )
