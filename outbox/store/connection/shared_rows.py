"""Locks rows that many transactions need, such as a capped server's. Nobody waits long for one.

A transaction of ours has such a row locked for milliseconds. But a host that vanishes within one
keeps the row locked until the database notices, which may take hours. Whoever waited for it would
keep a task's place as long, and the emails of all other servers would stop, too.

So a row is locked only where it is free. `run_patiently` tries for `PATIENCE` seconds, and then its
caller does without the row. From then on the process avoids the row, until it gets it. It tries
only once each time, and for `AVOIDED` seconds its sweeps claim nothing that needs the row.
On PostgreSQL permits are taken in one statement, which queues for the row as long at most.

No transaction inserts such a row together with other work: `insert_alone` commits it by itself. An
INSERT would wait for an open transaction that has inserted the same row, and cannot skip it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..harmless_log import harmless_log
from .database import Database
from .list_parts import parts
from .row_locks import locking

Result = TypeVar("Result")

PATIENCE = 2.0
"""Seconds for which a row is asked for. A crowd of workers has it one by one in far less time."""

AVOIDED = 10.0
"""Seconds for which a process claims nothing that needs a row it did not get."""

_REMEDY = (
    "what needs it waits, and the rest goes on. If that host has vanished, end its session in the"
    " database; `flask outbox check` tells how to limit idle transactions"
)
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


class LockedElsewhere(Exception):
    """Another transaction has locked rows of these names. The transaction is to be rolled back."""

    def __init__(self, table: Hashable, names: Collection[str]) -> None:
        rows = "the row" if len(names) == 1 else "the rows"
        told = ", ".join(map(repr, sorted(names)))
        super().__init__(f"another transaction has locked {rows} {told} of {table}")
        self.names = frozenset(names)
        self.rows = {(table, name) for name in names}


class _Absent(Exception):
    """Rows of these names do not exist yet, and are to be inserted with these values."""

    def __init__(self, key: Column[str], names: Collection[str], values: Mapping[str, Any]) -> None:
        super().__init__(f"rows of {key.table} are absent")
        self.key, self.names, self.values = key, names, values


def lock(
    connection: Connection,
    database: Database,
    rows: Select[*tuple[Any, ...]],
    key: Column[str],
    names: Collection[str],
    *,
    absent: Mapping[str, Any] | None = None,
) -> list[Row[Any]]:
    """Lock and return those of `rows` with these names that exist, in the order of their names.

    Two lockers cannot keep each other out, because of that order. Raises LockedElsewhere, without
    waiting. If `absent` has values, `run_patiently` inserts the missing rows with these values, and
    runs its work again.
    """
    wanted, found = sorted(names), list[Any]()
    for part in parts(wanted):
        named = rows.where(key.in_(part)).order_by(key)
        found += connection.execute(locking(named, key.table, skip_locked=True)).all()
    if len(found) < len(wanted):
        _explain(connection, key, wanted, {getattr(row, key.name) for row in found}, absent)
    for name in wanted if database.avoided else ():
        no_longer_avoided(database, key.table, name)
    return found


def _explain(
    connection: Connection,
    key: Column[str],
    wanted: Sequence[str],
    found: Collection[str],
    absent: Mapping[str, Any] | None,
) -> None:
    """Raise LockedElsewhere or _Absent, whichever explains why not all wanted rows were found."""
    there = _existing(connection, key, wanted)
    if locked := there.difference(found):
        raise LockedElsewhere(key.table, locked)
    if absent is not None and len(there) < len(wanted):
        raise _Absent(key, wanted, absent)


def _existing(connection: Connection, key: Column[str], names: Sequence[str]) -> set[str]:
    """Return which of these rows exist, by a plain read: a locked row is among them."""
    there = set[str]()
    for part in parts(names):
        there.update(connection.execute(select(key).where(key.in_(part))).scalars())
    return there


def run_patiently(
    database: Database, work: Callable[[Connection], Result], *, each: bool = False
) -> Result:
    """Run `work`, which locks rows with `lock`, as `Database.run` or `run_each` does.

    Where another transaction has locked a row it is run again, for `PATIENCE` seconds. Raises
    LockedElsewhere after that.
    """
    run = database.run_each if each else database.run
    return patiently(database, lambda: run(work))


def patiently(database: Database, attempt: Callable[[], Result]) -> Result:
    """Make this attempt as `run_patiently` runs its work; it opens its own transaction."""
    pause, deadline = _FIRST_PAUSE, time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except _Absent as error:
            insert_absent(database, error.key, error.names, **error.values)
            continue
        except LockedElsewhere as error:
            is_known = not error.rows.isdisjoint(database.avoided)
            if is_known or time.monotonic() > deadline:
                database.avoided |= dict.fromkeys(error.rows, time.monotonic() + AVOIDED)
                if not is_known:
                    harmless_log.warning("outbox: %s for %g s: %s", error, PATIENCE, _REMEDY)
                raise
        time.sleep(pause * (0.5 + random.random()))  # noqa: S311
        pause = min(_LONGEST_PAUSE, 2 * pause)


def change_or_insert(
    database: Database, change: Callable[[Connection], bool], table: Table, **values: Any
) -> None:
    """Run `change` patiently; where it returns False, because its row is absent, insert the row.

    If another transaction inserts the row first, `change` runs again. Raises as `run_patiently`.
    """
    while not run_patiently(database, change):
        if insert_alone(database, table, **values):
            return


def avoided(database: Database, table: Table) -> dict[str, float]:
    """Return the rows of a table that this process avoids, and for how many seconds more."""
    now = time.monotonic()
    ends = {name: until for (of, name), until in list(database.avoided.items()) if of is table}
    return {name: until - now for name, until in ends.items() if until > now}


def no_longer_avoided(database: Database, table: Hashable, name: str) -> None:
    """Have this process ask for a row patiently again: it got the row, or the row is gone."""
    database.avoided.pop((table, name), None)


def lock_free(connection: Connection, table: Table, which: ColumnElement[bool]) -> Sequence[str]:
    """Lock the rows that fulfil `which` and are free; return their keys."""
    (key,) = table.primary_key
    found = select(key).where(which).order_by(key)
    return connection.execute(locking(found, table, skip_locked=True)).scalars().all()


def update_free(
    connection: Connection, table: Table, which: ColumnElement[bool], **values: Any
) -> int:
    """Change the rows that fulfil `which` and are free; return how many."""
    free = lock_free(connection, table, which)
    if not free:
        return 0
    (key,) = table.primary_key
    changed = update(table).where(key.in_(free), which).values(**values)
    return connection.execute(changed).rowcount


def update_free_alone(
    database: Database, table: Table, which: ColumnElement[bool], **values: Any
) -> None:
    """Change the rows that fulfil `which` and are free, in a transaction of its own.

    Where an UPDATE can return rows, it can also lock them: one statement, without BEGIN and COMMIT.
    """
    if not database.facts.returning:
        database.run(lambda connection: update_free(connection, table, which, **values))
        return
    (key,) = table.primary_key
    free = locking(select(key).where(which), table, skip_locked=True)
    changed = update(table).where(key.in_(free), which).values(**values)
    database.run_each(lambda connection: connection.execute(changed))


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


def insert_absent(
    database: Database, key: Column[str], names: Collection[str], **values: Any
) -> None:
    """Insert those rows that do not exist, with these values, each in a transaction of its own."""
    wanted = sorted(names)
    known = database.read(lambda connection: _existing(connection, key, wanted))
    for name in wanted:
        if name not in known:
            insert_alone(database, key.table, **{key.name: name}, **values)
