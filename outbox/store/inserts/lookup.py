"""Inserts the rows by which new emails are looked up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Insert
from sqlalchemy import insert as insert_into

from ..connection.database import Database
from .bulk import insert_rows

COLUMNS = ("digest", "email_id")

Looked = Iterable[tuple[int, Collection[int]]]
"""Ids of emails with their digests."""


def insert(connection: Connection, database: Database, emails: Looked) -> None:
    """Insert a row for each digest of these emails."""
    rows: list[dict[str, Any]] = [dict(zip(COLUMNS, row, strict=True)) for row in pairs(emails)]
    insert_rows(connection, database.built(_statement), rows)


def pairs(emails: Looked) -> Iterator[tuple[int, int]]:
    """Yield the rows, with the columns COLUMNS."""
    return ((digest, email_id) for email_id, digests in emails for digest in digests)


def _statement(database: Database) -> Insert:
    return insert_into(database.tables.lookup)
