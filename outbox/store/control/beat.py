"""The mark of the last sweep that beat asked for: it shows that beat, broker and workers work.

Sweeps after a commit leave no mark. So an app that forgot beat has none, though its emails go out:
those that are put off, or whose worker died, wait until somebody commits.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..schema.clock import utc
from .counter import BEAT

EVERY = 60.0
"""Seconds from one mark to the next, over all processes: a write for each sweep would cost more."""


def note(connection: Connection, database: Database) -> None:
    """Leave a mark, unless another process did so just now or is about to."""
    table = database.tables.counter
    mine = table.c.name == BEAT
    marked = select(table.c.value).where(mine)
    now = _seconds(connection, database)
    found = connection.execute(marked.with_for_update(skip_locked=True)).scalar()
    if found is not None:
        if now - found >= EVERY:
            connection.execute(update(table).where(mine).values(value=now))
    elif connection.execute(marked).scalar() is None:  # nobody holds it: there is none yet
        insert_if_absent(connection, table, name=BEAT, value=now)


def age(connection: Connection, database: Database) -> float | None:
    """Return how many seconds ago the last mark was left; None if there never was one."""
    table = database.tables.counter
    found = connection.execute(select(table.c.value).where(table.c.name == BEAT)).scalar()
    return None if found is None else max(0.0, _seconds(connection, database) - found)


def _seconds(connection: Connection, database: Database) -> int:
    moment: datetime = connection.execute(select(database.now())).scalar_one()
    return int(utc(moment).timestamp())
