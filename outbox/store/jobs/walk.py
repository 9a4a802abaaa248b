"""The emails that an order is for, newest first, from a place on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from ...domain.delivery.status import Status
from ...domain.jobs.order import Action, Order
from ...domain.search.place import Place
from ..connection.database import Database
from ..connection.list_parts import among, parts
from ..lookup.find import sent_to
from ..queries.standstill import MOST_COUNTED
from ..schema.clock import utc
from ..search.candidates import MOST_READ, ByAttention, ById, Candidates, Few, candidates, waiting
from ..search.page import MOST_OF_GROUP, conditions, only_of_group

COUNTED_AMONG = 4 * MOST_READ
"""The most candidates that a count looks at, so that it takes a fraction of a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """The next emails of a walk."""

    ids: Sequence[int]
    place: Place  # the walk goes on after it
    is_end: bool


class Count(NamedTuple):
    """How many emails an order is for."""

    emails: int
    more: bool  # whether there may be more

    def exceeds(self, seen: Count) -> bool:
        """Return whether there are more emails than a person has seen, or may be.

        Where that count ended at its bounds, the person has seen that there may be any number. Then
        no comparison is possible.
        """
        return not seen.more and (self.more or self.emails > seen.emails)

    def lacks(self, seen: Count) -> bool:
        """Return whether there are fewer emails than before, as far as a comparison is possible."""
        return not seen.more and not self.more and self.emails < seen.emails


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Goes through an order's emails that are older than the place `upto`."""

    connection: Connection
    database: Database
    order: Order
    upto: Place

    def ahead(self, place: Place, most: int) -> Ahead:
        """Return the next emails after `place`, up to `most`; MOST_READ candidates are looked at.

        They are read without locks. So check each again before you change it.
        """
        leading = self._leading()
        found, left = list[int](), MOST_READ
        while left > 0:
            places = leading.after(place, min(most, left))
            fitting = self.fitting([one.id for one in places])
            for place in places:
                if place.id in fitting:
                    found.append(place.id)
                    if len(found) == most:
                        return Ahead(ids=found, place=place, is_end=False)
            if len(places) < min(most, left):
                return Ahead(ids=found, place=place, is_end=True)
            left -= len(places)
        return Ahead(ids=found, place=place, is_end=False)

    def count(self) -> Count:
        """Count the emails, as far as MOST_COUNTED emails and COUNTED_AMONG candidates go."""
        leading = self._leading()
        is_of_group = self.order.filters.is_of_group  # there looking at one costs more
        bounds = (MOST_OF_GROUP,) if is_of_group else (MOST_COUNTED + 1, COUNTED_AMONG)
        for among_so_many in bounds:
            looked_at, found = self._count(leading, among_so_many)
            if found > MOST_COUNTED or looked_at < among_so_many:
                break
        return Count(min(found, MOST_COUNTED), found > MOST_COUNTED or looked_at == among_so_many)

    def stuck(self) -> Count:
        """Count the failed and unknown emails that a cancellation is for once they are retried.

        They have needed a person since before `upto`. So the number falls with each that is
        retried, and never rises.
        """
        if self.order.action is not Action.CANCEL:
            return Count(0, False)
        each = [self._retried(status).count() for status in Action.RETRY.statuses]
        return Count(sum(one.emails for one in each), any(one.more for one in each))

    def _retried(self, status: Status) -> Walk:
        """Return the walk through the emails that fit but for this status of theirs."""
        filters = replace(self.order.filters, status=status)
        return replace(self, order=Order(action=Action.RETRY, filters=filters))

    def _count(self, leading: Candidates, most: int) -> tuple[int, int]:
        """Return how many candidates there are, up to `most`, and how many the order is for.

        The database counts them, but for a recipient, and for a group of problems: there each is
        looked at.
        """
        filters = self.order.filters
        is_plain = filters.recipient is None and not filters.is_of_group
        if not isinstance(leading, (ById, ByAttention)) or not is_plain:
            places = leading.after(self.upto, most)
            return len(places), len(self.fitting([one.id for one in places]))
        email = self.database.tables.email
        looked = leading.statement(self.upto, most).subquery("looked")
        first = next(iter(looked.c))  # the id
        fits = case((and_(*self._conditions()), 1), else_=0)
        counted = select(func.count(), func.coalesce(func.sum(fits), 0))
        row = self.connection.execute(counted.join_from(looked, email, email.c.id == first)).one()
        return row[0], int(row[1])

    def ends(self) -> tuple[Place, Place] | None:
        """Return the first and the last candidate, or None if the list has no cheap end."""
        leading = self._leading()
        first = leading.after(self.upto, 1)
        last = _last(self.connection, self.database, leading)
        return (first[0], last) if first and last else None

    def _leading(self) -> Candidates:
        """Return the candidates by the filter that leads."""
        connection, database, filters = self.connection, self.database, self.order.filters
        if filters.status is None and self.order.action is Action.CANCEL and filters.is_wide:
            few = waiting(connection, database, Status.PENDING, Status.CLAIMED)
            if few is not None:
                return few
        return candidates(connection, database, filters)

    def fitting(self, ids: Sequence[int]) -> frozenset[int]:
        """Return which of these emails the order is for."""
        email, found = self.database.tables.email.c, set[int]()
        which = tuple(self._conditions())
        for part in parts(sorted(ids)):
            fitting = select(email.id).where(among(self.database, part), *which)
            found.update(self.connection.execute(fitting).scalars())
        filters = self.order.filters
        if filters.is_of_group:
            some = only_of_group(self.connection, self.database, filters, sorted(found))
            found.intersection_update(some)
        if filters.recipient is None:
            return frozenset(found)
        return sent_to(self.connection, self.database, filters.recipient, found)

    def _conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield what an email must fulfil: the filters, its status, and that it came before.

        An email that failed again since the beginning is left: a job retries each once.
        """
        email = self.database.tables.email.c
        yield from conditions(self.database, self.order.filters)
        yield email.status.in_(self.order.statuses)
        yield email.id < self.upto.id
        if self.order.filters.needs_person and self.upto.moment is not None:
            yield email.attention_at <= self.upto.moment


def beginning(connection: Connection, database: Database) -> Place:
    """Return the place of now, before which are all emails that exist."""
    email = database.tables.email.c
    last = select(func.coalesce(func.max(email.id), 0)).scalar_subquery()
    row = connection.execute(select(last.label("id"), database.now().label("now"))).one()
    return Place(row.id + 1, utc(row.now))


def _last(connection: Connection, database: Database, leading: Candidates) -> Place | None:
    email = database.tables.email.c
    match leading:
        case ByAttention():
            since = email.attention_at
            oldest = select(email.id, since).where(since.is_not(None)).order_by(since, email.id)
            found = connection.execute(oldest.limit(1)).one_or_none()
            return None if found is None else Place(found.id, utc(found.attention_at))
        case ById():
            value = connection.execute(leading.lowest()).scalar()
            return None if value is None else Place(value)
        case Few(places=places) if places:
            return places[-1]
    return None
