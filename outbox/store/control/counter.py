"""Counters of rare events, shared by all hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from uuid import uuid4

from sqlalchemy import Connection, insert, or_, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.row_locks import locking
from ..connection.shared_rows import insert_absent, update_free

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
"""Counts nothing: its value is the id of an email that was sent again, or retried from its page.
Whoever looks first whether somebody did so already locks this row, so that there is one at a
time."""

STARTED = "started"
"""Counts nothing: its value is the id before which a job's dry run has counted. Whoever starts what
a dry run has shown locks this row, so that there is one at a time."""

RESTORED = "restored"
"""Counts nothing: its value is the id of the last attempt that was logged before a restore."""

MARKS = (BEAT, TASK, CRASHING, FOLDED, HEALTH, COPIED, STARTED, RESTORED)

_MORE = "/"
"""Stands between a counter's name and what tells its rows apart."""


def bump(connection: Connection, database: Database, name: str, by: int = 1) -> None:
    """Add to a counter, which begins at 0, in the transaction of the event that it counts.

    It waits for no other transaction: a host that vanished within one may keep a row locked for
    hours. A counter is the sum of its rows. Where none of them is free, it gets one more.
    """
    table = database.tables.counter
    ours = or_(table.c.name == name, table.c.name.startswith(name + _MORE, autoescape=True))
    free = select(table.c.name).where(ours).order_by(table.c.name).limit(1)
    found = connection.execute(locking(free, table, skip_locked=True)).scalar()
    if found is not None:
        more = update(table).where(table.c.name == found)
        connection.execute(more.values(value=table.c.value + by))
        return
    # Also the first row has a name that no other transaction may be about to insert.
    connection.execute(insert(table).values(name=f"{name}{_MORE}{uuid4().hex[:16]}", value=by))


def put(connection: Connection, database: Database, name: str, value: int) -> None:
    """Set a mark, in the transaction of what it tells. It waits for whoever sets it just now."""
    table = database.tables.counter
    mine = update(table).where(table.c.name == name).values(value=value)
    if connection.execute(mine).rowcount:
        return
    if not insert_if_absent(connection, table, name=name, value=value):
        connection.execute(mine)  # another transaction inserted it first


def make(database: Database, name: str) -> None:
    """Make a mark's row, unless it is there, so that `put_if_free` finds it."""
    insert_absent(database, database.tables.counter.c.name, [name], value=0)


def put_if_free(connection: Connection, database: Database, name: str, value: int) -> None:
    """Set a mark, as `put` does, unless another transaction has locked it: it waits for none."""
    table = database.tables.counter
    update_free(connection, table, table.c.name == name, value=value)


def read(connection: Connection, database: Database) -> dict[str, int]:
    """Return the counters by name."""
    table = database.tables.counter
    counted = select(table).where(table.c.name.not_in(MARKS)).order_by(table.c.name)
    return summed((row.name, row.value) for row in connection.execute(counted))


def summed(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the counters by name, of their rows' names and values."""
    counters = Counter[str]()
    for name, value in rows:
        counters[name.partition(_MORE)[0]] += value
    return dict(counters)
