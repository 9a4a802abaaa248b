"""The mark of whether the outbox was healthy when it was last watched: it turns for one process.

Several processes may watch. The one whose statement changes the mark tells of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.sql.dml import UpdateBase

from ..bounded_waits import bounded_waits, run_locally
from ..connection.database import Database
from ..schema.clock import utc
from .counter import HEALTH

_HEALTHY = 0


def turn(database: Database, *, healthy: bool) -> bool:
    """Set the mark; return whether that turned it. Without a mark the outbox counts as healthy.

    Whoever watches is to be told soon, whatever holds others up. So it waits for a locked mark as
    long as a person does, and then raises RowsLocked. Its commit waits for no synchronous replica.

    The limit is a statement of its own: PostgreSQL locks a statement's tables before it runs any of
    it, so a limit that the same statement set would come too late for a locked table.
    """
    table = database.tables.counter
    value = _HEALTHY if healthy else _seconds(database)
    was_other = table.c.value != _HEALTHY if healthy else table.c.value == _HEALTHY
    turned = update(table).where(table.c.name == HEALTH, was_other).values(value=value)
    if _alone(database, turned):
        return True
    return not healthy and _alone(database, insert(table).values(name=HEALTH, value=value))


def _alone(database: Database, statement: UpdateBase) -> bool:
    """Run the statement; return whether it changed the row, and did not meet it unawares."""

    def work(connection: Connection) -> bool:
        with bounded_waits(connection, database):
            return connection.execute(statement).rowcount != 0  # an INSERT may have none

    try:
        return run_locally(database, work)
    except IntegrityError:  # another watcher inserted it first
        return False


def _seconds(database: Database) -> int:
    now = select(database.now())
    moment: datetime = database.read(lambda connection: connection.execute(now).scalar_one())
    return int(utc(moment).timestamp())
