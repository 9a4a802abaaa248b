"""Inserts emails and contents in as few statements as the database and driver allow."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, Insert
from sqlalchemy import insert as insert_into

from ...domain.delivery.outcome import RecipientStatus
from ..backend import BulkCopy, WholeInsert, backend_of
from ..connection.database import Database
from ..new_email import COLUMNS, Values
from . import contents as content
from .bulk import insert_rows

_SEND_AT = COLUMNS.index("send_at")
_TIMED = ("content_id", "created_at", "due_at", *COLUMNS)


def one(
    connection: Connection,
    database: Database,
    row: Values,
    body: bytes,
    reuse: bool,
    recipients: Sequence[str],
) -> int:
    """Insert an email, its content and, if there are several, its recipients; return its id.

    With `reuse` an equal content is looked for first. If `is_one_statement` is true, all rows are
    written or none. Otherwise the caller needs a savepoint for that.
    """
    several = recipients if len(recipients) > 1 else ()
    if (whole := _insert_of(connection)) is not None:
        columns = content.columns(body, digest=reuse)
        found = content.find(connection, database, columns) if reuse else None
        source = columns if found is None else found
        return whole.insert(connection, database, row, source, several)
    stored = content.store(connection, database, body, reuse=reuse)
    email_id = content.inserted_id(
        connection.execute(database.built(_statement, row[_SEND_AT] is None), _named(row, stored))
    )
    if several:
        _insert_recipients(connection, database, email_id, several)
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
    connection: Connection, database: Database, rows: Sequence[Values], bodies: Sequence[bytes]
) -> None:
    """Insert emails that each have their own content."""
    if (copy := _copy_of(connection)) is not None:
        table = database.tables.content
        now, ids = copy.reserve(connection, database, table, len(rows))
        if len(ids) == len(rows):
            copied = content.copied(now, zip(ids, bodies, strict=True))
            copy.copy_rows(connection, database, table, content.COPIED, copied)
            copy.copy_rows(
                connection, database, database.tables.email, _TIMED, _timed(now, rows, ids)
            )
            return
    _insert(connection, database, rows, content.insert_many(connection, database, bodies))


def sharing(
    connection: Connection, database: Database, rows: Iterable[Values], content_id: int
) -> int:
    """Insert emails of one stored content; return their number. `copy_rows` restricts `rows`."""
    if (copy := _copy_of(connection)) is not None:
        timed = _timed(copy.moment(connection, database), rows, repeat(content_id))
        return copy.copy_rows(connection, database, database.tables.email, _TIMED, timed)
    found = list(rows)
    _insert(connection, database, found, repeat(content_id))
    return len(found)


def _timed(
    now: datetime, rows: Iterable[Values], contents: Iterable[int]
) -> Iterator[tuple[Any, ...]]:
    return (
        (content_id, now, row[_SEND_AT] or now, *row)
        for row, content_id in zip(rows, contents, strict=False)
    )


def _insert(
    connection: Connection, database: Database, rows: Sequence[Values], contents: Iterable[int]
) -> None:
    named = list(map(_named, rows, contents))
    for at_once in (True, False):
        wanted = [row for row in named if (row["send_at"] is None) is at_once]
        insert_rows(connection, database.built(_statement, at_once), wanted)


def _named(row: Values, content_id: int) -> dict[str, Any]:
    named = dict(zip(COLUMNS, row, strict=True), content_id=content_id)
    return named if named["send_at"] is None else named | {"due_at": named["send_at"]}


def _statement(database: Database, at_once: Hashable) -> Insert:
    # Only the clocks are in the statement. SQLAlchemy would coerce each value that stands in it,
    # and make it a part of its cache key. Each column has a clock of its own: asyncpg's parameters
    # are numbered, and one clock for two places would be counted once.
    statement = insert_into(database.tables.email).values(created_at=database.now())
    return statement.values(due_at=database.now()) if at_once else statement
