"""The mark of whether the outbox was healthy when it was last watched: it turns for one process.

Several processes may watch. The one whose statement changes the mark tells of it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.sql.dml import UpdateBase

from ...domain.errors import RowsLocked
from ..backend import backend_of
from ..bounded_waits import SECONDS, bounded_waits
from ..connection.database import Database
from ..connection.error_codes import is_lock_timeout
from ..schema.clock import utc
from .counter import HEALTH

_HEALTHY = 0


def turn(database: Database, *, healthy: bool) -> bool:
    """Set the mark; return whether that turned it. Without a mark the outbox counts as healthy.

    Whoever watches is to be told soon, whatever holds others up. So it waits for a locked mark as
    long as a person does, and then raises RowsLocked. Its commit waits for no synchronous replica.
    """
    own = backend_of(database.dialect).turn_mark
    if own is None:
        return turn_in_steps(database, healthy=healthy)
    try:
        return own(database, HEALTH, healthy=healthy, patience=SECONDS)
    except DBAPIError as error:
        if is_lock_timeout(error):
            raise RowsLocked from error
        raise


def turn_in_steps(database: Database, *, healthy: bool) -> bool:
    """Do as `turn` does, on any database.

    Each statement is committed by itself: nobody waits for a watcher that vanished before a commit.
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
        return database.run_each(work)
    except IntegrityError:  # another watcher inserted it first
        return False


def _seconds(database: Database) -> int:
    now = select(database.now())
    moment: datetime = database.read(lambda connection: connection.execute(now).scalar_one())
    return int(utc(moment).timestamp())
