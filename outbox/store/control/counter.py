"""Counters of rare events, shared by all hosts."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent

UNKNOWN = "unknown"
"""Counts unknown results: the connection or the worker was lost after the final dot."""

BEAT = "beat"
"""Counts nothing: its value is the moment of beat's last sweep, in seconds since 1970."""

TASK = "task"
"""Counts nothing: its value is the moment when a worker last took a task of ours, in seconds since
1970."""

CRASHING = "crashing"
"""Counts nothing: its value is the id of an email that was with a lost worker again."""

FOLDED = "folded"
"""Counts nothing: its value is the moment of the last fold of the tallies, in seconds since 1970.
A fold locks this row, so that there is one at a time."""

HEALTH = "health"
"""Counts nothing: its value is 0, or the moment since which the outbox was seen not to be healthy,
in seconds since 1970."""

COPIED = "copied"
"""Counts nothing: its value is the id of an email that was sent again. Whoever looks first whether
somebody did so already locks this row, so that there is one at a time."""

MARKS = (BEAT, TASK, CRASHING, FOLDED, HEALTH, COPIED)


def bump(connection: Connection, database: Database, name: str, by: int = 1) -> None:
    """Add to a counter, which begins at 0, in the transaction of the event that it counts."""
    table = database.tables.counter
    add = update(table).where(table.c.name == name).values(value=table.c.value + by)
    if connection.execute(add).rowcount:
        return
    if not insert_if_absent(connection, table, name=name, value=by):
        connection.execute(add)  # another transaction inserted it first


def put(connection: Connection, database: Database, name: str, value: int) -> None:
    """Set a mark, in the transaction of what it tells."""
    table = database.tables.counter
    mine = update(table).where(table.c.name == name).values(value=value)
    if connection.execute(mine).rowcount:
        return
    if not insert_if_absent(connection, table, name=name, value=value):
        connection.execute(mine)  # another transaction inserted it first


def read(connection: Connection, database: Database) -> dict[str, int]:
    """Return the counters by name."""
    table = database.tables.counter
    counted = select(table).where(table.c.name.not_in(MARKS)).order_by(table.c.name)
    return {row.name: row.value for row in connection.execute(counted)}
