"""A page of the emails that a search is for, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, case, func, select

from ...domain.errors import InvalidMessage
from ...domain.search.digests import recipient_digests
from ...domain.search.filters import Filters
from ...domain.search.place import Place
from ..connection.database import Database
from ..connection.list_parts import among, parts
from ..lookup.find import sent_to
from ..queries.reports import summary
from ..report_records import EmailPage, EmailSummary
from .candidates import MOST_READ, ByAttention, candidates
from .problems import of_group
from .subjects import begins

_FURTHER = 1000
"""How many more candidates are looked at, once the first ones did not fill the page."""
MOST_OF_GROUP = 2000
"""The most candidates that a page looks at where of each the last attempt is read, too."""
_GROWTH = 4
"""By how much the next look at such candidates is larger than the one before."""


def page(
    connection: Connection, database: Database, filters: Filters, after: Place | None, limit: int
) -> EmailPage:
    """Return up to `limit` emails that come after this place.

    It looks at no more than MOST_READ candidates, and at fewer for a group of problems. A page may
    therefore have fewer emails than were asked for, or none, and still a next page. Raises
    InvalidMessage for the place of another list.
    """
    leading = candidates(connection, database, filters)
    if after is not None and isinstance(leading, ByAttention) is (after.moment is None):
        raise InvalidMessage("after", "is a place in another list: the filters have changed")
    found: list[EmailSummary] = []
    last: Place | None = None
    for count in _counts_of_group(limit) if filters.is_of_group else _counts(limit):
        places = leading.after(after, count)
        rows = _matching(connection, database, filters, [place.id for place in places])
        for place in places:
            if place.id not in rows:
                continue
            if len(found) == limit:
                return EmailPage(emails=tuple(found), next=str(last))
            found.append(rows[place.id])
            last = place
        if len(places) < count:
            return EmailPage(emails=tuple(found), next=None)
        after = places[-1]
    return EmailPage(emails=tuple(found), next=str(after))


def _counts_of_group(limit: int) -> Iterator[int]:
    """Yield how many candidates to look at in turn, where looking at one costs more."""
    count, left = limit + 1, MOST_OF_GROUP
    while left > 0:
        yield min(count, left)
        left, count = left - count, min(count * _GROWTH, _FURTHER)


def _counts(limit: int) -> Iterator[int]:
    """Yield how many candidates to look at in turn."""
    count, left = limit + 1, MOST_READ
    while left > 0:
        yield min(count, left)
        left, count = left - count, max(count, _FURTHER)


def _matching(
    connection: Connection, database: Database, filters: Filters, ids: Sequence[int]
) -> dict[int, EmailSummary]:
    """Return by id those of these emails that fulfil all filters."""
    email = database.tables.email
    if filters.is_of_group:  # of the others no whole row is read
        ids = only_of_group(connection, database, filters, ids)
    found: dict[int, EmailSummary] = {}
    for part in parts(sorted(ids)):
        which = among(database, part), *conditions(database, filters)
        for row in connection.execute(select(email).where(*which)):
            found[row.id] = EmailSummary(**summary(row))
    if filters.recipient is not None:
        ours = sent_to(connection, database, filters.recipient, found)
        found = {email_id: one for email_id, one in found.items() if email_id in ours}
    return found


def only_of_group(
    connection: Connection, database: Database, filters: Filters, ids: Sequence[int]
) -> Sequence[int]:
    """Return which of these emails are of the group of problems that the filters ask for."""
    email, found = database.tables.email.c, dict[int, str]()
    for part in parts(sorted(ids)):
        which = among(database, part), *conditions(database, filters)
        rows = connection.execute(select(email.id, email.recipient).where(*which))
        found |= {row.id: row.recipient for row in rows}
    return sorted(of_group(connection, database, filters, found))


def conditions(database: Database, filters: Filters) -> Iterator[ColumnElement[bool]]:
    """Yield what the filters ask of an email.

    Another table's row is looked up for each email, by its key. For EXISTS, PostgreSQL may first
    read all rows of the other table that could match.
    """
    tables = database.tables
    email, lookup, content = tables.email.c, tables.lookup.c, tables.content.c
    for column, value in (
        (email.key, filters.key),
        (email.message_id, filters.message_id),
        (email.tag, filters.tag),
        (email.status, filters.status),
    ):
        if value is not None:
            yield column == value
    if filters.since is not None:
        yield email.created_at >= filters.since
    if filters.until is not None:
        yield email.created_at < filters.until
    if filters.recipient is not None:  # a hit, which is verified by the email's own row
        same = lookup.digest.in_(recipient_digests(filters.recipient))
        hits = select(func.count()).where(same, lookup.email_id == email.id)
        yield hits.scalar_subquery() >= 1
    if filters.subject is not None:
        fits = select(case((begins(database, filters.subject), 1), else_=0))
        yield fits.where(content.id == email.content_id).scalar_subquery() == 1
