"""Scans the emails by their ids. No statement reads more than a few thousand of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, Select, func, select

from ...domain.delivery.status import Status, sources
from ..connection.database import Database

LOOK = 5000
"""The most emails that one statement looks at."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A range of emails: how many ids it spans, and the ids of the emails that match."""

    span: int
    ids: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of the emails that existed when it began, oldest first."""

    database: Database
    which: ColumnElement[bool]
    first: int
    last: int

    @property
    def span(self) -> int:
        """The number of ids that all stretches span together."""
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[Stretch]:
        """Yield the stretches. Each is read when it is asked for, outside of any transaction.

        A change that happens meanwhile may be seen or not. So check an email again before you act
        on it.
        """
        email, passed = self.database.tables.email.c, self.first - 1
        while passed < self.last:
            ahead = select(email.id, self.which.label("wanted"))
            ahead = ahead.where(email.id > passed, email.id <= self.last)
            rows = self._rows(ahead.order_by(email.id).limit(LOOK))
            end = rows[-1].id if len(rows) == LOOK else self.last
            yield Stretch(span=end - passed, ids=[row.id for row in rows if row.wanted])
            passed = end

    def _rows(self, statement: Select[int, bool]) -> Sequence[Row[int, bool]]:
        return self.database.read(lambda connection: connection.execute(statement).all())


def waiting_with_tag(database: Database, tag: str) -> Scan:
    """Return a scan for the emails of one tag that can still be withdrawn."""
    email = database.tables.email.c
    return scan(database, email.status.in_(sources(Status.CANCELLED)), email.tag == tag)


def scan(database: Database, which: ColumnElement[bool], *among: ColumnElement[bool]) -> Scan:
    """Return a scan for `which`, between the first and the last email that fulfils `among`.

    An index finds these two.
    """
    email = database.tables.email.c
    ends = select(func.min(email.id).label("first"), func.max(email.id).label("last"))
    row = database.read(lambda connection: connection.execute(ends.where(*among)).one())
    found = which
    for each in among:
        found &= each
    return Scan(database=database, which=found, first=row.first or 1, last=row.last or 0)
