"""Contents: immutable octets. A large content that is already stored is found and reused."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from zlib import crc32

from sqlalchemy import (
    Connection,
    CursorResult,
    Insert,
    Select,
    select,
    update,
)
from sqlalchemy import insert as insert_into

from ..connection.database import Database
from ..connection.list_parts import is_among, is_among_bound
from ..connection.psycopg.binary_results import binary_results
from ..connection.row_locks import free, kept
from ..encryption.cipher import Cipher
from ..encryption.parts import Content, seal_content
from ..new_email import NewContent

Columns = dict[str, Any]


def store(connection: Connection, database: Database, new: NewContent, *, reuse: bool) -> int:
    """Return the id of a stored content with these octets; insert it if none is found.

    Only a committed row is reused, and only if nobody is removing it. An enqueue never waits for
    another request's transaction, so the same content may be stored twice.
    """
    digest = digest_of(database.cipher, new) if reuse else None
    if digest and (found := find(connection, database, new, digest)) is not None:
        return found
    row = columns(database.cipher, new, digest)
    return inserted_id(connection.execute(database.built(_insert), row))


def digest_of(cipher: Cipher, new: NewContent) -> bytes:
    """Return the digest by which a content is found again."""
    return cipher.digest(hashlib.sha256(new.body).digest())


def columns(cipher: Cipher, new: NewContent, digest: bytes | None = None) -> Columns:
    """Return the row of a content. It needs a `digest` only if it may be found again."""
    body, key_id = seal_content(cipher, new.body, new.owner)
    return {
        "size": len(new.body),
        "crc32": crc32(body),
        "sha256": digest,
        "key_id": key_id,
        "body": body,
        "subject": new.subject,
    }


def inserted_id(result: CursorResult[Any]) -> int:
    """Return the id that the database gave to one inserted row."""
    key = result.inserted_primary_key
    assert key is not None  # noqa: S101  (typed optional for other kinds of statements)
    return int(key[0])


def insert_many(
    connection: Connection, database: Database, contents: Sequence[NewContent]
) -> list[int]:
    """Store many contents and return their ids in the same order."""
    if not connection.dialect.insert_executemany_returning_sort_by_parameter_order:
        return [store(connection, database, new, reuse=False) for new in contents]
    rows = [columns(database.cipher, new) for new in contents]
    result = connection.execute(database.built(_insert_many), rows)
    return [int(row.id) for row in result.all()]


COPIED = ("id", "created_at", "size", "crc32", "key_id", "body", "subject")


def copied(
    cipher: Cipher, now: datetime, contents: Iterable[tuple[int, NewContent]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows, with the columns COPIED, of contents with their reserved ids."""
    for content_id, new in contents:
        body, key_id = seal_content(cipher, new.body, new.owner)
        yield content_id, now, len(new.body), crc32(body), key_id, body, new.subject


def _insert(database: Database) -> Insert:
    return insert_into(database.tables.content).values(created_at=database.now())


def _insert_many(database: Database) -> Any:
    key = database.tables.content.c.id
    return _insert(database).returning(key, sort_by_parameter_order=True)


def find(connection: Connection, database: Database, new: NewContent, digest: bytes) -> int | None:
    """Return the id of a committed content with this digest, locked against purge.

    It has the same subject, too, which may stand in the emails' own headers.
    """
    content = database.tables.content
    size, subject = len(new.body), new.subject
    same = (content.c.sha256 == digest) & (content.c.size == size)
    same &= content.c.subject.is_(None) if subject is None else content.c.subject == subject
    if database.facts.one_writer:
        # A write that changes nothing takes the write lock, which keeps the purge away.
        first = select(content.c.id).where(same).limit(1).scalar_subquery()
        found = connection.execute(
            update(content).where(content.c.id == first).values(size=size).returning(content.c.id)
        )
        return found.scalar()
    if database.facts.repeatable_read:
        # A locking read by hash would lock the gaps beside it, and other inserts would wait.
        first_id = connection.execute(select(content.c.id).where(same).limit(1)).scalar()
        if first_id is None:
            return None
        # That read saw the transaction's snapshot. The content may have been emptied since, so the
        # locking read, which sees the newest row, asks for the same once more.
        same &= content.c.id == first_id
    # The lock keeps the purge away until this transaction ends. A row that the purge has locked is
    # skipped.
    one = select(content.c.id).where(same).limit(1)
    return connection.execute(kept(connection, one)).scalar()


def read(connection: Connection, database: Database, ids: Iterable[int]) -> dict[int, Content]:
    """Return the contents by id, as they are stored.

    A content that is missing, damaged or redacted is left out.
    """
    with binary_results(connection):
        rows = connection.execute(database.built(_among), {"ids": sorted(set(ids))}).all()
    return {found: Content(body, key) for found, crc, key, body in rows if crc32(body) == crc}


def read_from_primary(
    connection: Connection, database: Database, ids: Collection[int]
) -> dict[int, Content]:
    """Return the contents as `read` does, in a transaction, and from no replica that lags behind.

    A proxy may send plain reads to a replica. It sends a locking read to the primary, and then all
    that follows in the transaction. Locked rows are read too, so this waits for nobody.
    """
    content = database.tables.content
    found = select(content.c.id).where(is_among(database, content.c.id, ids))
    connection.execute(free(found.order_by(content.c.id), content)).all()
    return read(connection, database, ids)


def _among(database: Database) -> Select[int, int, str | None, bytes]:
    content = database.tables.content.c
    chosen = is_among_bound(database, content.id, "ids")
    columns = select(content.id, content.crc32, content.key_id, content.body)
    return columns.where(chosen, content.redacted_at.is_(None))
