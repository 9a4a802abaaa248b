"""Locks rows that many transactions need, such as a capped server's. Nobody waits long for one.

A transaction of ours holds such a row for milliseconds. But a host that vanishes within one keeps
the row until the database notices, which may take hours. Whoever waited for it would keep a task's
place as long, and the emails of all other servers would stop, too. So a row is locked only where it
is free. It is asked for again for `PATIENCE` seconds, and then whoever asks does without it. From
then on a process tries such a row only once each time, until it gets it, and for `LEFT` seconds
sweeps claim nothing that needs it.

No transaction inserts such a row together with other work: `insert_alone` commits it by itself. For
a row of an open transaction an INSERT would wait, and nothing can be skipped there.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from .database import Database
from .list_parts import parts

_log = logging.getLogger("outbox")

Result = TypeVar("Result")

PATIENCE = 2.0
"""Seconds for which a row is asked for. A crowd of workers has it one by one in far less time."""

LEFT = 10.0
"""Seconds for which a process claims nothing that needs a row it did not get."""

_AND_NOW = "what needs it waits, and the rest goes on. Has a host vanished?"
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


class Held(Exception):
    """Other transactions hold rows of these names. The transaction is to be rolled back."""

    def __init__(self, table: Hashable, names: Collection[str]) -> None:
        super().__init__(f"another transaction holds a row of {table}")
        self.names = frozenset(names)
        self.rows = {(table, name) for name in names}


def lock(
    connection: Connection,
    database: Database,
    rows: Select[*tuple[Any, ...]],
    key: Column[str],
    names: Collection[str],
) -> list[Row[Any]]:
    """Lock and return those of `rows` with these names that exist. Raises Held, without waiting.

    They are locked in the order of their names, so that two lockers cannot keep each other out.
    """
    wanted, found = sorted(names), list[Any]()
    for part in parts(wanted):
        free = rows.where(key.in_(part)).order_by(key).with_for_update(skip_locked=True)
        found += connection.execute(free).all()
    if len(found) < len(wanted):
        there = set[str]()
        for part in parts(wanted):
            there.update(connection.execute(select(key).where(key.in_(part))).scalars())
        if held := there.difference(getattr(row, key.name) for row in found):
            raise Held(key.table, held)
    if database.held:
        for name in wanted:
            database.held.pop((key.table, name), None)
    return found


def in_turn(database: Database, work: Callable[[Connection], Result]) -> Result:
    """Run `work`, which locks rows with `lock`, as `Database.run` does.

    Where a row is held it is run again for `PATIENCE` seconds. Raises Held after that.
    """
    pause, deadline = _FIRST_PAUSE, time.monotonic() + PATIENCE
    while True:
        try:
            return database.run(work)
        except Held as error:
            is_known = not error.rows.isdisjoint(database.held)
            if is_known or time.monotonic() > deadline:
                database.held |= dict.fromkeys(error.rows, time.monotonic() + LEFT)
                if not is_known:
                    _log.warning("outbox: %s for %g s: %s", error, PATIENCE, _AND_NOW)
                raise
        time.sleep(pause * (0.5 + random.random()))  # noqa: S311
        pause = min(_LONGEST_PAUSE, 2 * pause)


def seconds_left(database: Database, table: Table) -> dict[str, float]:
    """Return the rows of a table that this process did not get, and for how long it leaves them."""
    now = time.monotonic()
    held = {name: until - now for (of, name), until in list(database.held.items()) if of is table}
    return {name: seconds for name, seconds in held.items() if seconds > 0.0}


def lock_free(connection: Connection, table: Table, which: ColumnElement[bool]) -> Sequence[str]:
    """Lock the rows that fulfil `which` and that nobody holds; return their keys."""
    (key,) = table.primary_key
    free = select(key).where(which).order_by(key).with_for_update(skip_locked=True)
    return connection.execute(free).scalars().all()


def update_free(
    connection: Connection, table: Table, which: ColumnElement[bool], **values: Any
) -> int:
    """Change the rows that fulfil `which` and that nobody holds; return how many."""
    free = lock_free(connection, table, which)
    if not free:
        return 0
    (key,) = table.primary_key
    changed = update(table).where(key.in_(free), which).values(**values)
    return connection.execute(changed).rowcount


def insert_alone(database: Database, table: Table, **values: Any) -> bool:
    """Insert a row in a transaction of its own; return False if one with its key is there.

    Outside of SQLite that is one statement. So nobody vanishes while the row is not committed.
    """
    statement = insert(table).values(**values)
    try:
        database.run_each(lambda connection: connection.execute(statement))
    except IntegrityError:
        return False
    return True
