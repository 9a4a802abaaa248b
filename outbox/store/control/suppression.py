"""The suppression list: addresses that get no email."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select

from ...domain.header.address import suppression_key
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..report_records import Suppression
from ..schema.clock import utc
from ..schema.column_types import REASON_LENGTH


def suppress(connection: Connection, database: Database, address: str, reason: str) -> bool:
    """Put an address on the list; return False if it was already on it."""
    table = database.tables.suppression
    values = {"reason": reason[:REASON_LENGTH], "created_at": database.now()}
    return insert_if_absent(connection, table, address=suppression_key(address), **values)


def allow(connection: Connection, database: Database, address: str) -> bool:
    """Take an address off the list; return False if it was not on it."""
    table = database.tables.suppression
    gone = delete(table).where(table.c.address == suppression_key(address))
    return connection.execute(gone).rowcount == 1


def suppressed(connection: Connection, database: Database) -> tuple[Suppression, ...]:
    """Return the list, by address."""
    table = database.tables.suppression
    return tuple(
        Suppression(address=row.address, reason=row.reason, created_at=utc(row.created_at))
        for row in connection.execute(select(table).order_by(table.c.address))
    )
