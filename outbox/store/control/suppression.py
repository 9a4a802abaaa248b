"""The suppression list: addresses that get no email."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from ...domain.header.address import suppression_key
from ..connection.database import Database


def suppress(connection: Connection, database: Database, address: str, reason: str) -> bool:
    """Put an address on the list; False where it was on it already."""
    row = insert(database.tables.suppression).values(
        address=suppression_key(address), reason=reason[:200], created_at=database.now()
    )
    try:
        with connection.begin_nested():
            connection.execute(row)
    except IntegrityError:
        return False
    return True


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
