"""Removes the sums of minutes and hours that are past their retention, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, delete, func, select

from ...domain.figures.spans import KEPT, MINUTE, minute_of
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..schema.clock import utc

SPANS_AT_ONCE = 10
"""How many minutes or hours one transaction removes: some thousand rows at most."""


def purge_figures(database: Database) -> Iterator[int]:
    """Remove old sums; yield after each transaction how many rows it removed.

    It may be ended after each step. The next one goes on from there. The totals are kept.
    Raises RowsLocked if a row stays locked.
    """
    for span, kept in KEPT.items():
        end = _first_kept(database, kept)
        step = SPANS_AT_ONCE * span // MINUTE
        start = _oldest(database, span)
        while start is not None and start < end:
            yield _remove(database, span, min(start + step, end))
            start = _oldest(database, span)


def _first_kept(database: Database, kept: float) -> int:
    now = database.read(lambda connection: connection.execute(select(database.now())).scalar_one())
    return minute_of(utc(now)) - int(kept) // MINUTE


def _oldest(database: Database, span: int) -> int | None:
    stat = database.tables.stat.c
    oldest = select(func.min(stat.minute)).where(stat.span == span)
    return database.read(lambda connection: connection.execute(oldest).scalar())


def _remove(database: Database, span: int, end: int) -> int:
    stat = database.tables.stat
    old = delete(stat).where(stat.c.span == span, stat.c.minute < end)

    def work(connection: Connection) -> int:
        return connection.execute(old).rowcount

    return run_bounded(database, work)
