"""The candidates of a search, newest first, as one index has them: the filter that leads it.

The most selective filter leads. A page then looks at the rows of its candidates for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Select, literal, select, tuple_, union_all

from ...domain.delivery.status import LEASED, Status
from ...domain.search.digests import message_id_digest, recipient_digests
from ...domain.search.filters import Filters
from ...domain.search.place import Place
from ..connection.database import Database
from ..queries.id_steps import ids_of_tag
from ..queries.waiting import first_waiting
from ..schema.clock import utc
from .id_bounds import Bounds, bounds
from .subjects import BySubject, contents_of

MOST_READ = 5000
"""The most emails that a page looks at, and the most that an index may have in no useful order."""


class Candidates(Protocol):
    """Emails that may be among those that a search is for."""

    def after(self, place: Place | None, count: int) -> Sequence[Place]:
        """Return the next `count` candidates after this place, or all that are left."""


@dataclass(frozen=True, kw_only=True)
class ById:
    """Candidates in the order of a column of ids, the highest first."""

    connection: Connection
    ids: ColumnElement[int]
    some: Select[int]  # the statement for all of them
    bounds: Bounds

    def after(self, place: Place | None, count: int) -> Sequence[Place]:
        """Return the candidates with the next lower ids."""
        rows = self.connection.execute(self.statement(place, count))
        return [Place(email_id) for email_id in rows.scalars()]

    def statement(self, place: Place | None, count: int) -> Select[int]:
        """Return the statement for their ids."""
        low, high = self.bounds
        if place is not None:
            high = place.id if high is None else min(high, place.id)
        statement = self.some if low is None else self.some.where(self.ids > low)
        statement = statement if high is None else statement.where(self.ids < high)
        return statement.order_by(self.ids.desc()).limit(count)

    def lowest(self) -> Select[int]:
        """Return the statement for the lowest of their ids."""
        above = self.some.where(self.ids > (self.bounds.low or 0))
        return above.order_by(self.ids).limit(1)


@dataclass(frozen=True, kw_only=True)
class ByAttention:
    """Emails that need a person, in the order of the moment since when they do, the last first."""

    connection: Connection
    database: Database
    filters: Filters

    def after(self, place: Place | None, count: int) -> Sequence[Place]:
        """Return the candidates with the next earlier moments."""
        rows = self.connection.execute(self.statement(place, count))
        return [Place(row.id, utc(row.attention_at)) for row in rows]

    def statement(self, place: Place | None, count: int) -> Select[int, datetime]:
        """Return the statement for their ids and moments."""
        email = self.database.tables.email.c
        since = email.attention_at
        statement = select(email.id, since).where(since.is_not(None))
        if self.filters.since is not None:  # what was created later came to need a person later
            statement = statement.where(since >= self.filters.since)
        if place is not None and place.moment is not None:
            # One comparison of both, which PostgreSQL looks up in the index. With an OR it may read
            # and sort all that come after the place.
            here = tuple_(literal(place.moment, since.type), literal(place.id, email.id.type))
            statement = statement.where(since <= place.moment, tuple_(since, email.id) < here)
        return statement.order_by(since.desc(), email.id.desc()).limit(count)


@dataclass(frozen=True, kw_only=True)
class Few:
    """Candidates that an index has in another order, and that are few enough to be sorted."""

    places: Sequence[Place]

    @classmethod
    def of(cls, ids: Iterable[int]) -> Few:
        """Return these candidates."""
        return cls(places=[Place(email_id) for email_id in sorted(ids, reverse=True)])

    def after(self, place: Place | None, count: int) -> Sequence[Place]:
        """Return the candidates with the next lower ids."""
        left = (one for one in self.places if place is None or one.id < place.id)
        return [one for one, _ in zip(left, range(count), strict=False)]


def candidates(connection: Connection, database: Database, filters: Filters) -> Candidates:
    """Return the candidates by the filter that leads."""
    if filters.key is None and filters.message_id is None and filters.recipient is None:
        if filters.needs_person:
            return ByAttention(connection=connection, database=database, filters=filters)
        if (few := waiting(connection, database, filters.status)) is not None:
            return few
        if (same := _of_subject(connection, database, filters.subject)) is not None:
            return same
    ids, some = _led(database, filters)
    limits = bounds(connection, database, filters.since, filters.until)
    return ById(connection=connection, ids=ids, some=some, bounds=limits)


def _led(database: Database, filters: Filters) -> tuple[ColumnElement[int], Select[int]]:
    """Return the column of ids, and the statement for those that the leading index has."""
    email, lookup = database.tables.email.c, database.tables.lookup.c
    if filters.key is not None:
        return email.id, select(email.id).where(email.key == filters.key)
    if filters.message_id is not None:
        digest = message_id_digest(filters.message_id)
        return lookup.email_id, select(lookup.email_id).where(lookup.digest == digest)
    if filters.recipient is not None:
        digests = recipient_digests(filters.recipient)
        return lookup.email_id, select(lookup.email_id).where(lookup.digest.in_(digests))
    if filters.tag is not None:
        return email.id, ids_of_tag(database, filters.tag)
    return email.id, select(email.id)


def waiting(connection: Connection, database: Database, *statuses: Status | None) -> Few | None:
    """Return the emails that wait or are claimed, if they are few.

    One statement reads all of them. An email that is given back between two would be in neither.
    """
    lists = [_waiting(database, status) for status in statuses]
    chosen = [each for each in lists if each is not None]
    ids = _few(connection, *chosen) if len(chosen) == len(lists) else None
    return None if ids is None else Few.of(set(ids))


def _waiting(database: Database, status: Status | None) -> Select[int] | None:
    """Return the statement for the emails of a status in an index's order, or None if none has."""
    email = database.tables.email.c
    if status is Status.PENDING:
        return first_waiting(database, email.id, limit=MOST_READ + 1)
    if status in LEASED:
        return select(email.id).where(email.token.is_not(None)).order_by(email.token, email.id)
    return None


def _of_subject(
    connection: Connection, database: Database, subject: str | None
) -> BySubject | None:
    """Return the emails with this subject, if few contents have it."""
    contents = None if subject is None else _few(connection, contents_of(database, subject))
    if contents is None:
        return None
    return BySubject(connection=connection, database=database, contents=contents)


def _few(connection: Connection, *statements: Select[int]) -> Sequence[int] | None:
    """Return the ids that these statements select, or None if they are more than MOST_READ.

    Each is in an index's order. Without one PostgreSQL may go through all rows for so many.
    """
    limited: list[Select[int]] = [each.limit(MOST_READ + 1) for each in statements]
    # SQLite takes a part's order and limit only in a subquery.
    parts = [select(each.subquery().c.id) for each in limited]
    whole = limited[0] if len(limited) == 1 else union_all(*parts)
    found: Sequence[Any] = list(connection.execute(whole).scalars())
    return None if len(found) > MOST_READ else found
