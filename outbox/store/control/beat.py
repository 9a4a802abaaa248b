"""The marks of the last tasks: of the last one that beat asked for, and of the last one at all.

The first shows that beat, broker and workers work. Sweeps after a commit leave none. So an app that
forgot beat has none, though its emails go out: those that are put off, or whose worker died, wait
until somebody commits. The second shows that tasks come from the broker, whoever asked for them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, update

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


def note(database: Database) -> None:
    """Leave a mark of beat, unless there is one from just now."""
    _note(database, BEAT, EVERY)


def note_task(database: Database) -> None:
    """Leave a mark of a task, unless there is one from just now."""
    _note(database, TASK, TASK_EVERY)


def age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark of beat was left; None if there never was one."""
    return _age(connection, database, BEAT)


def task_age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark of a task was left; None if there never was one."""
    return _age(connection, database, TASK)


def _note(database: Database, name: str, every: float) -> None:
    """Look at the mark, and replace it if it is old. One that somebody holds is passed over."""
    table = database.tables.counter
    found = database.read(lambda connection: _look(connection, database, name))
    now = _seconds(found.now)

    def work(connection: Connection) -> None:
        if found.value is None:
            insert_if_absent(connection, table, name=name, value=now)
            return
        same = table.c.name == name, table.c.value == found.value
        free = select(table.c.value).where(*same).with_for_update(skip_locked=True)
        if connection.execute(free).first() is not None:
            connection.execute(update(table).where(*same).values(value=now))

    if found.value is None or now - found.value >= every:
        database.run(work)


def _age(connection: Connection, database: Database, name: str) -> float | None:
    found = _look(connection, database, name)
    return None if found.value is None else max(0.0, _seconds(found.now) - found.value)


def _look(connection: Connection, database: Database, name: str) -> Row[Any]:
    table = database.tables.counter.c
    value = select(table.value).where(table.name == name).scalar_subquery()
    looked = select(value.label("value"), database.now().label("now"))
    return connection.execute(looked).one()


def _seconds(moment: datetime) -> int:
    return int(utc(moment).timestamp())
