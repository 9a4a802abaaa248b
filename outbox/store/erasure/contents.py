"""The contents of a person's emails: those that nobody else has are emptied."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, select, update

from ...domain.delivery.status import FINISHED
from ...domain.header.address import suppression_key
from ..connection.database import Database
from ..connection.list_parts import is_among
from ..connection.row_locks import locking
from ..redaction import NO_BODY

_LOOKED_AT = 100
"""Emails with one content that are read at once: a newsletter has a million."""


class Judged(NamedTuple):
    """What becomes of the contents of some emails. The others are somebody else's too, and stay."""

    own: frozenset[int]  # to be emptied
    busy: frozenset[int]  # an enqueue, or an email of the person that is not over, needs it


def judge(
    connection: Connection, database: Database, rows: Iterable[Row[Any]], address: str
) -> Judged:
    """Lock the contents that only this person's emails have, and that are free.

    A content is looked at before and after its lock. Others' contents are never locked, or their
    enqueues would wait. An enqueue that uses a content again still has it locked, or is seen.
    """
    given = [row for row in rows if row.redacted_at is None]  # the others' contents are empty
    ids = {row.id for row in given}
    own = {row.content_id for row in given if not row.headers}  # no other email can have it
    look = _Look(connection, database, ids, suppression_key(address))
    chosen = {one for one in {row.content_id for row in given} - own if not look.is_shared(one)}
    content = database.tables.content
    found = select(content.c.id).where(is_among(database, content.c.id, chosen))
    free = locking(found.order_by(content.c.id), content, skip_locked=True)
    locked = set(connection.execute(free).scalars())
    locked = {one for one in locked if not look.is_shared(one)} if chosen else set()
    needed = {one for one in locked if look.is_needed(one)}
    return Judged(own=frozenset(own | locked - needed), busy=frozenset(chosen - locked | needed))


def empty(connection: Connection, database: Database, ids: Collection[int]) -> None:
    """Remove the bodies of these contents. Their emails stay, and can never be sent again."""
    content = database.tables.content
    if ids:
        emptied = update(content).where(is_among(database, content.c.id, ids))
        connection.execute(emptied.values(redacted_at=database.now(), **NO_BODY))


class _Look(NamedTuple):
    """Looks at who else has a content."""

    connection: Connection
    database: Database
    ids: Collection[int]  # the emails that are erased now
    key: str  # of the person

    def is_shared(self, content_id: int) -> bool:
        """Return whether an email to somebody else has this content, in whatever status."""
        email = self.database.tables.email.c
        spellings = {self.key}  # of the person's address; most databases cannot ignore case
        while True:
            is_other = email.recipient.not_in(sorted(spellings)) | (email.recipients > 1)
            found = select(email.recipient, email.recipients).where(self._has(content_id), is_other)
            rows = self.connection.execute(found.limit(_LOOKED_AT)).all()
            people = {suppression_key(row.recipient) for row in rows}
            if people - {self.key} or any(row.recipients > 1 for row in rows):
                return True
            if not rows:
                return False
            spellings.update(row.recipient for row in rows)

    def is_needed(self, content_id: int) -> bool:
        """Return whether an email that is not over has this content."""
        email = self.database.tables.email.c
        is_open = email.status.not_in(sorted(FINISHED))
        found = select(email.id).where(self._has(content_id), is_open).limit(1)
        return self.connection.execute(found).first() is not None

    def _has(self, content_id: int) -> ColumnElement[bool]:
        """Return the condition: the email is not erased now, and may still use this content."""
        email = self.database.tables.email.c
        is_left = email.redacted_at.is_(None) & email.id.not_in(sorted(self.ids))
        return (email.content_id == content_id) & is_left
