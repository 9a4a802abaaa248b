"""Inserts emails and contents in as few statements as the database and driver allow."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, Insert, func, select
from sqlalchemy import insert as insert_into

from ...domain.delivery.outcome import RecipientStatus
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import is_among
from ..new_email import COLUMNS, Entry, NewContent, Values
from ..operations import BulkCopy, WholeInsert
from . import contents as content
from . import lookup
from .bulk import insert_rows

_SEND_AT = COLUMNS.index("send_at")
_MESSAGE_ID = COLUMNS.index("message_id")
_COPIED = ("id", "content_id", "created_at", "due_at", *COLUMNS)


def one(
    connection: Connection,
    database: Database,
    entry: Entry,
    new: NewContent,
    reuse: bool,
    recipients: Sequence[str],
) -> int:
    """Insert an email, its content and, if there are several, its recipients; return its id.

    With `reuse` an equal content is looked for first. If `is_one_statement` is true, all rows are
    written or none. Otherwise the caller needs a savepoint for that.
    """
    row, digests = entry
    several = recipients if len(recipients) > 1 else ()
    if (whole := _insert_of(connection)) is not None:
        digest = content.digest_of(database.cipher, new) if reuse else None
        found = content.find(connection, database, new, digest) if digest else None
        source = content.columns(database.cipher, new, digest) if found is None else found
        return whole.insert(connection, database, row, source, several, digests)
    stored = content.store(connection, database, new, reuse=reuse)
    email_id = content.inserted_id(
        connection.execute(database.built(_statement, row[_SEND_AT] is None), _named(row, stored))
    )
    if several:
        _insert_recipients(connection, database, email_id, several)
    lookup.insert(connection, database, [(email_id, digests)])
    return email_id


def is_one_statement(connection: Connection) -> bool:
    """Return whether `one` inserts with one statement: with psycopg and psycopg2."""
    return _insert_of(connection) is not None


def _insert_of(connection: Connection) -> WholeInsert | None:
    own = backend_of(connection.dialect.name).insert
    return own if own is not None and own.is_possible(connection) else None


def _copy_of(connection: Connection) -> BulkCopy | None:
    own = backend_of(connection.dialect.name).copy
    return own if own is not None and own.is_possible(connection) else None


def _insert_recipients(
    connection: Connection, database: Database, email_id: int, addresses: Sequence[str]
) -> None:
    rows = [
        {
            "email_id": email_id,
            "position": position,
            "address": address,
            "status": RecipientStatus.PENDING,
        }
        for position, address in enumerate(addresses)
    ]
    insert_rows(connection, insert_into(database.tables.recipient), rows)


def different(
    connection: Connection,
    database: Database,
    entries: Sequence[Entry],
    new: Sequence[NewContent],
) -> None:
    """Insert emails that each have their own content."""
    if (copy := _copy_of(connection)) is not None:
        tables = database.tables.content, database.tables.email
        now, (contents, ids) = copy.reserve(connection, database, tables, len(entries))
        if len(contents) == len(ids) == len(entries):
            copied = content.copied(database.cipher, now, zip(contents, new, strict=True))
            copy.copy_rows(connection, database, tables[0], content.COPIED, copied)
            _copy(connection, database, copy, now, zip(entries, ids, contents, strict=True))
            return
    _insert(connection, database, entries, content.insert_many(connection, database, new))


def sharing(
    connection: Connection,
    database: Database,
    entries: Iterable[Entry],
    size: int,
    content_id: int,
) -> int:
    """Insert `size` emails of one stored content; return their number.

    `copy_rows` restricts `entries`.
    """
    if (copy := _copy_of(connection)) is not None:
        email = database.tables.email
        now, (ids,) = copy.reserve(connection, database, (email,), size)
        if len(ids) == size:
            placed = zip(entries, ids, repeat(content_id, size), strict=True)
            return _copy(connection, database, copy, now, placed)
    found = list(entries)
    _insert(connection, database, found, [content_id] * len(found))
    return len(found)


def _copy(
    connection: Connection,
    database: Database,
    copy: BulkCopy,
    now: datetime,
    placed: Iterable[tuple[Entry, int, int]],
) -> int:
    """Copy emails with the ids that are reserved for them and for their contents."""
    looked: list[tuple[int, Collection[int]]] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        for (row, digests), email_id, content_id in placed:
            looked.append((email_id, digests))
            yield (email_id, content_id, now, row[_SEND_AT] or now, *row)

    tables = database.tables
    added = copy.copy_rows(connection, database, tables.email, _COPIED, rows())
    if pairs := list(lookup.pairs(looked)):
        copy.copy_rows(connection, database, tables.lookup, lookup.COLUMNS, pairs)
    return added


def _insert(
    connection: Connection, database: Database, entries: Sequence[Entry], contents: Sequence[int]
) -> None:
    is_looked_up = any(digests for _, digests in entries)
    before = _newest(connection, database, contents) if is_looked_up else 0
    named = [_named(row, place) for (row, _), place in zip(entries, contents, strict=True)]
    for at_once in (True, False):
        wanted = [row for row in named if (row["send_at"] is None) is at_once]
        insert_rows(connection, database.built(_statement, at_once), wanted)
    if is_looked_up:
        looked = _with_ids(connection, database, entries, contents, before)
        lookup.insert(connection, database, looked)


def _newest(connection: Connection, database: Database, contents: Sequence[int]) -> int:
    """Return the highest id of an email with one of these contents, or 0."""
    email = database.tables.email.c
    among = is_among(database, email.content_id, set(contents))
    return connection.execute(select(func.max(email.id)).where(among)).scalar() or 0


def _with_ids(
    connection: Connection,
    database: Database,
    entries: Sequence[Entry],
    contents: Sequence[int],
    before: int,
) -> Iterator[tuple[int, Collection[int]]]:
    """Yield the ids that the database gave to these emails, with their digests.

    Not every database returns them from an INSERT of many rows. Emails of one content have
    different Message-IDs, because they were made for this run.
    """
    email = database.tables.email.c
    digests = {
        (content_id, row[_MESSAGE_ID]): found
        for (row, found), content_id in zip(entries, contents, strict=True)
    }
    among = is_among(database, email.content_id, set(contents))
    inserted = select(email.id, email.content_id, email.message_id).where(among, email.id > before)
    for row in connection.execute(inserted).all():
        found = digests.get((row.content_id, row.message_id))
        if found is not None:  # or another transaction's, of the same content
            yield row.id, found


def _named(row: Values, content_id: int) -> dict[str, Any]:
    named = dict(zip(COLUMNS, row, strict=True), content_id=content_id)
    return named if named["send_at"] is None else named | {"due_at": named["send_at"]}


def _statement(database: Database, at_once: Hashable) -> Insert:
    # Only the clocks are in the statement. SQLAlchemy would coerce each value that stands in it,
    # and make it a part of its cache key. Each column has a clock of its own: asyncpg's parameters
    # are numbered, and one clock for two places would be counted once.
    statement = insert_into(database.tables.email).values(created_at=database.now())
    return statement.values(due_at=database.now()) if at_once else statement
