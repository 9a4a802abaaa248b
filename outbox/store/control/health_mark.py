"""The mark of whether the outbox was healthy when it was last watched: it turns for one process.

Several processes may watch. The one whose statement changes the mark tells of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update

from ..connection.database import Database
from ..connection.shared_rows import insert_alone
from ..schema.clock import utc
from .counter import HEALTH

_HEALTHY = 0


def turn(database: Database, *, healthy: bool) -> bool:
    """Set the mark; return whether that turned it. Without a mark the outbox counts as healthy.

    Each statement is committed by itself: nobody waits for a watcher that vanished before a commit.
    """
    table = database.tables.counter
    value = _HEALTHY if healthy else _seconds(database)
    was_other = table.c.value != _HEALTHY if healthy else table.c.value == _HEALTHY
    turned = update(table).where(table.c.name == HEALTH, was_other).values(value=value)
    if database.run_each(lambda connection: connection.execute(turned).rowcount):
        return True
    return not healthy and insert_alone(database, table, name=HEALTH, value=value)


def _seconds(database: Database) -> int:
    now = select(database.now())
    moment: datetime = database.read(lambda connection: connection.execute(now).scalar_one())
    return int(utc(moment).timestamp())
