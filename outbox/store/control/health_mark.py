"""The mark of whether the outbox was healthy when it was last watched: it turns for one process.

Several processes may watch. The one whose statement changes the mark tells of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..schema.clock import utc
from .counter import HEALTH

_HEALTHY = 0


def turn(connection: Connection, database: Database, *, healthy: bool) -> bool:
    """Set the mark; return whether that turned it. Without a mark the outbox counts as healthy."""
    table = database.tables.counter
    value = _HEALTHY if healthy else _seconds(connection, database)
    was_other = table.c.value != _HEALTHY if healthy else table.c.value == _HEALTHY
    turned = update(table).where(table.c.name == HEALTH, was_other).values(value=value)
    if connection.execute(turned).rowcount:
        return True
    return not healthy and insert_if_absent(connection, table, name=HEALTH, value=value)


def _seconds(connection: Connection, database: Database) -> int:
    moment: datetime = connection.execute(select(database.now())).scalar_one()
    return int(utc(moment).timestamp())
