"""Removes the bodies of emails that ask for it, in the transaction that writes their end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select, update

from ..domain.delivery.status import FINISHED, Status
from .connection.database import Database
from .connection.list_parts import among, is_among
from .connection.row_locks import Locked

NO_BODY: dict[str, Any] = {
    "size": 0, "crc32": 0, "sha256": None, "key_id": None, "subject": None, "body": b"",
}  # fmt: skip
"""The columns of a redacted content. A checksum of a short code would tell the code."""
NOTHING_OWN: dict[str, Any] = {"headers": b"", "merge": None}
"""What an email has of its message beside the content."""


def has_body(database: Database) -> ColumnElement[bool]:
    """Return the condition: an email's content is not empty.

    An erased email keeps a content that somebody else has. A subquery for one value is looked up
    row by row; for an EXISTS PostgreSQL may read all contents.
    """
    email, content = database.tables.email.c, database.tables.content.c
    emptied = select(content.redacted_at).where(content.id == email.content_id).scalar_subquery()
    return or_(email.redacted_at.is_(None), emptied.is_(None))


def redact_ended(
    connection: Connection, database: Database, rows: Iterable[Locked], status: Status
) -> None:
    """Redact those of these emails, which have ended with this status, that ask for it."""
    if status in FINISHED:
        redact(connection, database, [row.id for row in rows if row.redact])


def redact(connection: Connection, database: Database, ids: list[int]) -> None:
    """Remove the bodies of these emails, whose rows the caller has locked; the emails stay.

    Each of them has a content of its own: an enqueue sees to that. An email in doubt needs its
    body, so none of these may be.
    """
    if not ids:
        return
    email, content = database.tables.email, database.tables.content
    own = select(email.c.content_id).where(among(database, ids))
    contents = connection.execute(own).scalars().all()
    emptied = update(content).where(is_among(database, content.c.id, contents))
    connection.execute(emptied.values(redacted_at=database.now(), **NO_BODY))
    bare = update(email).where(among(database, ids))
    connection.execute(bare.values(redacted_at=database.now(), **NOTHING_OWN))
