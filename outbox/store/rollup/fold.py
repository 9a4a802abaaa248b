"""Sums the tallies up: removes them and adds them to the minutes, the hours and the totals.

One fold runs at a time: it locks a mark, and other sweeps pass on instead of waiting. It reads the
tallies that are committed. One that commits later is found by a later fold, whatever its id is.
Removing and adding are one transaction. So wherever it dies, each tally is counted exactly once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, exists, select, update

from ...domain.figures.spans import HOUR, MINUTE, TOTAL
from ..backend import backend_of
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.list_parts import parts
from ..connection.row_locks import locking
from ..connection.shared_rows import insert_alone
from ..control.counter import FOLDED
from ..deletion import delete_keyed
from ..schema.clock import utc
from ..schema.stat_tables import KEY

EVERY = 5.0
"""Seconds from one fold to the next, over all processes."""

FOLDED_AT_ONCE = 5000
"""The most tallies in one fold, so that its transaction is short. The next one takes the rest."""

_Row = dict[str, Any]


def fold(database: Database) -> bool:
    """Sum tallies up, unless a fold ran just now; return whether more may be left.

    Raises RowsLocked if a sum stays locked. Then the tallies wait for the next fold.
    """
    look = database.read(lambda connection: _look(connection, database))
    if look is None or not _is_over(look.mark, _seconds(look.now)):
        return False
    if look.mark is None:  # committed alone, or the other hosts would wait for this fold
        insert_alone(database, database.tables.counter, name=FOLDED, value=0)
    return run_bounded(database, lambda connection: _fold(connection, database))


def _look(connection: Connection, database: Database) -> Row[Any] | None:
    """Return the mark and the time, without a lock; None if there are no tallies."""
    tally, counter = database.tables.tally.c, database.tables.counter.c
    mark = select(counter.value).where(counter.name == FOLDED).scalar_subquery()
    found = select(mark.label("mark"), database.now().label("now")).where(exists(select(tally.id)))
    return connection.execute(found).one_or_none()


def _is_over(mark: int | None, now: int) -> bool:
    """Whether the last fold is long enough ago. A mark in the future is from a clock ahead."""
    return mark is None or not 0 <= now - mark < EVERY


def _seconds(moment: datetime) -> int:
    return int(utc(moment).timestamp())


def _fold(connection: Connection, database: Database) -> bool:
    now = _seconds(connection.execute(select(database.now())).scalar_one())
    if not _takes_the_turn(connection, database, now):
        return False
    own = backend_of(database.dialect).fold
    folded = (own or _in_steps)(connection, database, FOLDED_AT_ONCE)
    is_full = folded >= FOLDED_AT_ONCE
    counter = database.tables.counter
    marked = update(counter).where(counter.c.name == FOLDED)
    connection.execute(marked.values(value=0 if is_full else now))
    return is_full


def _in_steps(connection: Connection, database: Database, most: int) -> int:
    """Sum up so many tallies on any database; return how many it was."""
    tally = database.tables.tally
    columns = (tally.c.id, tally.c.attempts, *(tally.c[name] for name in KEY))
    rows = connection.execute(select(*columns).order_by(tally.c.id).limit(most)).all()
    for ids in parts([row.id for row in rows]):
        delete_keyed(connection, database, tally.c.id, ids)
    _add(connection, database, _sums(rows))
    return len(rows)


def _takes_the_turn(connection: Connection, database: Database, now: int) -> bool:
    """Lock the mark; return False if another fold has it, or ran just now."""
    table = database.tables.counter
    mark = select(table.c.value).where(table.c.name == FOLDED)
    found = connection.execute(locking(mark, table, skip_locked=True)).scalar()
    return found is not None and _is_over(found, now)


def _sums(rows: Sequence[Any]) -> list[_Row]:
    """Return the rows to add, in the order of their key.

    A total never falls, as a monitor expects of a counter: what is taken back stays in it.
    """
    sums = Counter[tuple[Any, ...]]()
    for row in rows:
        _, attempts, minute, *rest = row
        sums[MINUTE, minute, *rest] += attempts
        sums[HOUR, minute - minute % (HOUR // MINUTE), *rest] += attempts
        sums[TOTAL, 0, *rest] += max(0, attempts)
    names = ("span", *KEY, "attempts")
    return [
        dict(zip(names, (*key, attempts), strict=True))
        for key, attempts in sorted(sums.items())
        if attempts
    ]


def _add(connection: Connection, database: Database, rows: Sequence[_Row]) -> None:
    """Add these numbers to the sums with their keys, or write them as new sums."""
    if (own := backend_of(database.dialect).add_to_sums) is not None:
        own(connection, database, rows)
        return
    stat = database.tables.stat
    for row in rows:
        same = [stat.c[name] == row[name] for name in ("span", *KEY)]
        more = update(stat).where(*same).values(attempts=stat.c.attempts + row["attempts"])
        if not connection.execute(more).rowcount and not insert_if_absent(connection, stat, **row):
            connection.execute(more)
