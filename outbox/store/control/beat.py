"""The marks of the last tasks: of the last one that beat asked for, and of the last one at all.

The first shows that beat, broker and workers work. Sweeps after a commit leave none. So an app that
forgot beat has none, though its emails go out: those that are put off, or whose worker died, wait
until somebody commits. The second shows that tasks come from the broker, whoever asked for them.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..schema.clock import utc
from .counter import BEAT, TASK

EVERY = 60.0
"""Seconds from one mark of beat to the next, over all processes: a write for each sweep would cost
more."""

TASK_EVERY = 5.0
"""Seconds from one mark of a task to the next. Each process looks as often, so the mark of a fleet
that works is never older than twice as much."""


def note(connection: Connection, database: Database) -> None:
    """Leave a mark of beat, unless another process did so just now or is about to."""
    _note(connection, database, BEAT, EVERY)


def note_task(connection: Connection, database: Database) -> None:
    """Leave a mark of a task, unless another process did so just now or is about to."""
    _note(connection, database, TASK, TASK_EVERY)


def age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark of beat was left; None if there never was one."""
    return _age(connection, database, BEAT)


def task_age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark of a task was left; None if there never was one."""
    return _age(connection, database, TASK)


def _note(connection: Connection, database: Database, name: str, every: float) -> None:
    table = database.tables.counter
    mine = table.c.name == name
    marked = select(table.c.value).where(mine)
    now = _seconds(connection, database)
    found = connection.execute(marked.with_for_update(skip_locked=True)).scalar()
    if found is not None:
        if now - found >= every:
            connection.execute(update(table).where(mine).values(value=now))
    elif connection.execute(marked).scalar() is None:  # nobody holds it: there is none yet
        insert_if_absent(connection, table, name=name, value=now)


def _age(connection: Connection, database: Database, name: str) -> float | None:
    table = database.tables.counter
    found = connection.execute(select(table.c.value).where(table.c.name == name)).scalar()
    return None if found is None else max(0.0, _seconds(connection, database) - found)


def _seconds(connection: Connection, database: Database) -> int:
    moment: datetime = connection.execute(select(database.now())).scalar_one()
    return int(utc(moment).timestamp())
