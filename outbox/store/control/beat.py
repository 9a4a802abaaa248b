"""The marks of the last tasks: of the last one that beat asked for, and of the last one at all.

The first shows that beat, broker and workers work. Sweeps after a commit leave none. So an app that
forgot beat has none, though its emails go out: those that are put off, or whose worker died, wait
until somebody commits. The second shows that tasks come from the broker, whoever asked for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import floor
from typing import Any

from sqlalchemy import Connection, Row, select

from ..backend import backend_of
from ..connection.database import Database
from ..connection.shared_rows import insert_alone, update_free_alone
from ..schema.clock import utc
from .counter import BEAT, TASK

EVERY = 60.0
"""Seconds from one mark of beat to the next, over all processes: a write for each sweep would cost
more."""

TASK_EVERY = 5.0
"""Seconds from one mark of a task to the next. Each process looks as often, so the mark of a fleet
that works is never older than twice as much."""

Ages = tuple[float | None, float | None]
"""The seconds since the last mark of beat, and of any task; None if there never was one."""

Told = tuple[str, float, int]
"""A mark's name, how many seconds ago it was earned, and how much older one may be that is left."""


def note(database: Database) -> None:
    """Leave a mark of beat, unless there is one from just now."""
    _note(database, BEAT, EVERY)


def note_task(database: Database) -> None:
    """Leave a mark of a task, unless there is one from just now."""
    _note(database, TASK, TASK_EVERY)


def age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark of beat was left; None if there never was one."""
    return ages(connection, database)[0]


def ages(connection: Connection, database: Database) -> Ages:
    """Return the ages of both marks, read at once."""
    table = database.tables.counter.c
    marked = select(table.name, table.value, database.now().label("now"))
    rows = connection.execute(marked.where(table.name.in_([BEAT, TASK]))).all()
    return ages_of({row.name: since(row.value, _seconds(row.now)) for row in rows})


def ages_of(found: Mapping[str, float]) -> Ages:
    """Return the ages of both marks, from those that were found by their names."""
    return found.get(BEAT), found.get(TASK)


def _note(database: Database, name: str, every: float) -> None:
    renew = backend_of(database.dialect).renew_mark or renew_in_steps
    now = renew(database, name, every)
    if now is not None:
        insert_alone(database, database.tables.counter, name=name, value=now)


def leave(database: Database, told: Sequence[Told]) -> None:
    """Leave these marks in steps, unless there are some from not long before."""
    for name, ago, every in told:
        value = renew_in_steps(database, name, every, ago)
        if value is not None:
            insert_alone(database, database.tables.counter, name=name, value=value)


def renew_in_steps(database: Database, name: str, every: float, ago: float = 0.0) -> int | None:
    """Look at the mark, and replace it by that of `ago` seconds ago if it is older by `every`.

    If there is none, return the value for it. One from the future was left while the clock was
    ahead. A locked mark is passed over.
    """
    found = database.read(lambda connection: _look(connection, database, name))
    now, value = _seconds(found.now), floor(utc(found.now).timestamp() - ago)
    if found.value is None:
        return value
    if found.value > now or value - found.value >= every:
        _replace(database, name, found.value, value)
    return None


def _replace(database: Database, name: str, old: int, new: int) -> None:
    """Replace the mark, if nobody else has replaced it or locked its row."""
    table = database.tables.counter
    which = (table.c.name == name) & (table.c.value == old)
    update_free_alone(database, table, which, value=new)


def since(mark: float, now: float) -> float:
    """Return how many seconds ago a mark was left, at the most.

    One from the future was left while the clock was ahead, and nobody knows when. It counts by its
    distance, until the next task replaces it: an old one must not look new.
    """
    return abs(now - mark)


def _look(connection: Connection, database: Database, name: str) -> Row[Any]:
    table = database.tables.counter.c
    value = select(table.value).where(table.name == name).scalar_subquery()
    looked = select(value.label("value"), database.now().label("now"))
    return connection.execute(looked).one()


def _seconds(moment: datetime) -> int:
    return int(utc(moment).timestamp())
