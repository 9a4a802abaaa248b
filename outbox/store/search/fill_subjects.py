"""Stores the subjects of contents that were written before they could be found by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from sqlalchemy import Connection, bindparam, func, select, update

from ...domain.search.subject import folded_subject, read_subject
from ..connection.database import Database
from ..connection.list_parts import is_among, parts

HEAD = 16_384
"""The octets at the start of a content that are searched for its subject."""


class Own(Protocol):
    """The columns of an email's row that its own subject is read from."""

    content_id: int
    own: bytes | None  # its headers; None for what is no longer there, or names one reader


class FillSubjects:
    """Stores a subject for each content that has none, and whose emails all have the same.

    Most contents have it themselves. The emails of a large content have it in their own headers,
    and may differ. By a content's subject all its emails are found, so nothing is stored until the
    last one was seen. A subject with merge fields is in no content as it was written, so none is
    stored.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: dict[int, str | None] = {}  # by content; None: they differ, or one has none

    def see(self, rows: Iterable[Own]) -> None:
        """Note the subjects that these emails have in their own headers. One may come twice."""
        for row in rows:
            if not row.own or self._own.get(row.content_id, "") is None:
                continue
            text = read_subject(row.own)
            subject = None if text is None else folded_subject(text)
            if self._own.setdefault(row.content_id, subject) != subject:
                self._own[row.content_id] = None

    def keep(self, connection: Connection, contents: Collection[int]) -> None:
        """Store the subjects that these contents have themselves."""
        content = self._database.tables.content.c
        missing = is_among(self._database, content.id, contents) & content.subject.is_(None)
        missing &= content.key_id.is_(None)  # what is encrypted is not indexed
        missing &= content.redacted_at.is_(None)  # SQLite has a null for the head of an empty body
        head = func.substr(content.body, 1, HEAD, type_=content.body.type).label("head")
        rows = connection.execute(select(content.id, head).where(missing)).all()
        read = {row.id: read_subject(row.head) for row in rows}
        found = {key: folded_subject(text) for key, text in read.items() if text is not None}
        self.store(connection, found)

    def agreed(self) -> Iterator[dict[int, str]]:
        """Yield in parts, by content, the subjects that all emails seen have in common."""
        found = [(key, subject) for key, subject in self._own.items() if subject is not None]
        yield from map(dict, parts(found))

    def store(self, connection: Connection, subjects: dict[int, str]) -> None:
        """Store the subjects of these contents. One that was emptied meanwhile gets none."""
        content = self._database.tables.content
        one = update(content).where(content.c.id == bindparam("content"))
        one = one.where(content.c.subject.is_(None), content.c.key_id.is_(None))
        one = one.where(content.c.redacted_at.is_(None)).values(subject=bindparam("folded"))
        rows = [{"content": key, "folded": subject} for key, subject in subjects.items()]
        if rows:
            connection.execute(one, rows)
