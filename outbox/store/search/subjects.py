"""Candidates by the beginning of their subject, which stands with their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, select

from ...domain.search.place import Place
from ..connection.database import Database
from ..connection.list_parts import is_among, parts

_LAST = "\U0010ffff"
"""No text has it, and by code points it comes after every other character."""


def begins(database: Database, subject: str) -> ColumnElement[bool]:
    """Return the condition: the content's subject begins so. It is one range of the index."""
    column = database.tables.content.c.subject
    return (column >= subject) & (column < subject + _LAST)


def contents_of(database: Database, subject: str) -> Select[int]:
    """Return the statement for the contents whose subject begins so, in the index's order."""
    content = database.tables.content.c
    return select(content.id).where(begins(database, subject)).order_by(content.subject, content.id)


@dataclass(frozen=True, kw_only=True)
class BySubject:
    """The emails of a few contents, of which each may have one email or millions."""

    connection: Connection
    database: Database
    contents: Sequence[int]

    def after(self, place: Place | None, count: int) -> Sequence[Place]:
        """Return the candidates with the next lower ids.

        The newest emails are those of the contents whose own newest emails are the newest. So one
        step into the index is made for each content, and further steps only for these. They are
        taken the newest first, and each raises the floor for the next ones.
        """
        below = None if place is None else place.id
        newest = self._newest(self.contents, below)
        first = _newest_first(newest)[:count]
        found = [email_id for _, email_id in first]
        seconds = self._newest([content for content, _ in first], below, skip=1)
        for content, email_id in _newest_first(seconds):
            floor = found[-1] if len(found) == count else 0
            if email_id < floor:
                break
            older = self._older(content, email_id, floor, count)
            found = sorted([*found, *older], reverse=True)[:count]
        return [Place(email_id) for email_id in found]

    def _newest(
        self, contents: Sequence[int], below: int | None, *, skip: int = 0
    ) -> dict[int, int]:
        """Return the newest email of each content, or the one after it; none may be left."""
        content = self.database.tables.content.c
        newest = self._step(below, skip)
        found: dict[int, int] = {}
        for part in parts(contents):
            among = is_among(self.database, content.id, part)
            rows = self.connection.execute(select(content.id, newest).where(among))
            found |= {key: email_id for key, email_id in rows if email_id is not None}
        return found

    def _step(self, below: int | None, skip: int) -> ScalarSelect[int]:
        content, email = self.database.tables.content.c, self.database.tables.email.c
        statement = select(email.id).where(email.content_id == content.id)
        if below is not None:
            statement = statement.where(email.id < below)
        newest_first = statement.order_by(email.content_id.desc(), email.id.desc())
        return newest_first.limit(1).offset(skip).scalar_subquery()

    def _older(self, content: int, newest: int, floor: int, count: int) -> Sequence[int]:
        email = self.database.tables.email.c
        statement = (
            select(email.id)
            .where(email.content_id == content, email.id <= newest, email.id > floor)
            .order_by(email.content_id.desc(), email.id.desc())
            .limit(count)
        )
        return self.connection.execute(statement).scalars().all()


def _newest_first(emails: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return contents with the id of an email of each, in the order of these emails."""
    return sorted(emails.items(), key=lambda pair: pair[1], reverse=True)
