"""Looks at what is held: a bounded number of emails, by the index of due emails.

In each lane the held emails stand behind all others. So their number costs a look nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, select, union_all

from ...domain.priority import Priority
from ..connection.database import Database
from ..connection.list_parts import among, parts
from ..due_times import is_held
from ..queries.reports import summary
from ..queries.standstill import MOST_COUNTED
from ..queries.sweep.lane_keys import marked, ways
from ..report_records import EmailSummary
from .hold import HeldEmails, grouped

_LANES_AT_ONCE = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldGlance:
    """What a page shows of the held emails."""

    emails: int  # how many there are; at most 10,000 are counted
    more: bool  # whether there may be more, in these groups and in others
    groups: tuple[HeldEmails, ...]  # of those that were counted, by tag and priority, most first
    more_groups: int  # how many groups were not asked for
    first: tuple[EmailSummary, ...]  # some of the held emails, the oldest first


def glance(connection: Connection, database: Database, *, groups: int, emails: int) -> HeldGlance:
    """Return how many emails are held, and the largest of the groups and the first of the emails.

    The index alone tells at most MOST_COUNTED ids. Only the rows of these are read.
    """
    ids = list[int]()
    for lanes in _lanes(connection, database):
        ids += connection.execute(_held_ids(database, lanes, MOST_COUNTED - len(ids))).scalars()
    found = [
        group
        for part in parts(sorted(ids))
        for group in grouped(connection, database, among(database, part))
    ]
    largest = sorted(_merged(found), key=lambda one: (-one.emails, one.tag or "", one.priority))
    return HeldGlance(
        emails=len(ids),
        more=len(ids) >= MOST_COUNTED,
        groups=tuple(largest[:groups]),
        more_groups=max(0, len(largest) - groups),
        first=_summaries(connection, database, sorted(ids)[:emails]),
    )


def first_held(connection: Connection, database: Database) -> int | None:
    """Return the lowest id of a held email, or None where none is held."""
    found = [
        email_id
        for lanes in _lanes(connection, database)
        for email_id in connection.execute(_held_ids(database, lanes, 1, each=True)).scalars()
    ]
    return min(found, default=None)


_Lane = tuple[str, int]


def _lanes(connection: Connection, database: Database) -> Iterator[Sequence[_Lane]]:
    """Yield the lanes and priorities in which any email waits, so many at once."""
    rows = connection.execute(ways(database), marked(database, {})).all()
    found = sorted((row.lane, row.priority) for row in rows)
    for start in range(0, len(found), _LANES_AT_ONCE):
        yield found[start : start + _LANES_AT_ONCE]


def _held_ids(
    database: Database, lanes: Sequence[_Lane], most: int, *, each: bool = False
) -> Select[int]:
    """Return the statement for the ids of up to `most` held emails of these lanes, or of `each`."""
    email = database.tables.email
    terms = [
        select(email.c.id)
        .where(email.c.due_at.is_not(None), is_held(email))
        .where(email.c.priority == priority, email.c.lane == lane)
        .order_by(email.c.id)
        .limit(most)
        .subquery()
        for lane, priority in lanes
    ]
    some = select(union_all(*(select(term) for term in terms)).subquery())
    return some if each else some.limit(most)


def _summaries(
    connection: Connection, database: Database, ids: Sequence[int]
) -> tuple[EmailSummary, ...]:
    email = database.tables.email
    rows = connection.execute(select(email).where(among(database, ids)).order_by(email.c.id))
    return tuple(EmailSummary(**summary(row)) for row in rows)


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
