"""The suppression list: addresses that get no email."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from ...domain.header.address import suppression_key
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..schema.column_types import REASON_LENGTH


def suppress(connection: Connection, database: Database, address: str, reason: str) -> bool:
    """Put an address on the list; False where it was on it already."""
    table = database.tables.suppression
    values = {"reason": reason[:REASON_LENGTH], "created_at": database.now()}
    return insert_if_absent(connection, table, address=suppression_key(address), **values)


def allow(connection: Connection, database: Database, address: str) -> bool:
    """Take an address off the list; False where it was not on it."""
    table = database.tables.suppression
    gone = delete(table).where(table.c.address == suppression_key(address))
    return connection.execute(gone).rowcount == 1


def suppressed(connection: Connection, database: Database) -> list[tuple[str, str]]:
    """Return the (address, reason) pairs of the list."""
    table = database.tables.suppression
    rows = connection.execute(select(table.c.address, table.c.reason).order_by(table.c.address))
    return [(row.address, row.reason) for row in rows]
