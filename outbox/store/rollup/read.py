"""Reads the counts of attempts. Tallies that no fold has summed up yet are read with the sums.

Each read is one statement. So a fold that commits meanwhile hides nothing from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    Table,
    bindparam,
    case,
    cast,
    func,
    select,
    union_all,
)

from ...domain.delivery.transaction import Verdict
from ...domain.figures.figures import Figures, figures_of
from ...domain.figures.spans import MINUTE, Period, Range
from ..connection.database import Database
from ..queries.sweep.tagged_rows import constant
from ..schema.clock import utc


def read_figures(
    connection: Connection, database: Database, period: Period, now: datetime | None = None
) -> Figures:
    """Return the figures of this period up to now. `now`: the database's time, if it is known."""
    if now is None:
        now = utc(connection.execute(select(database.now())).scalar_one())
    range_ = Range(period=period, until=now)
    since = {"since": range_.minutes[0]}
    # One by one: thousands of rows at a time are work for Python's garbage collector.
    return figures_of(range_, connection.execute(database.built(_statement, period), since))


def _statement(database: Database, period: Period) -> CompoundSelect[*tuple[Any, ...]]:
    stat, tally = database.tables.stat.c, database.tables.tally.c
    since, step = bindparam("since", type_=stat.minute.type), period.span // MINUTE
    return _both(
        database,
        [stat.minute, stat.verdict, stat.bin, *_of_failures(stat)],
        [stat.span == period.span, stat.minute >= since],
        [
            tally.minute - tally.minute % constant(step),
            tally.verdict,
            tally.bin,
            *_of_failures(tally),
        ],
        [tally.minute >= since],
    )


def _of_failures(columns: Any) -> list[ColumnElement[Any]]:
    """Return server and code, only where an attempt failed: the others would be many more rows."""
    failed = columns.verdict != constant(Verdict.SENT)
    return [
        case((failed, columns.server), else_=constant("")),
        case((failed, columns.code), else_=constant(0)),
    ]


def _both(
    database: Database,
    summed: Sequence[ColumnElement[Any]],
    where_summed: Sequence[ColumnElement[bool]],
    tallied: Sequence[ColumnElement[Any]],
    where_tallied: Sequence[ColumnElement[bool]],
) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the statement for the attempts by these columns, of the sums and of the tallies.

    Each table is grouped by itself, so the same key may come twice. MariaDB and MySQL would write
    all rows of both into another table first.
    """
    stat, tally = database.tables.stat, database.tables.tally
    return union_all(
        _grouped(stat, summed).where(*where_summed), _grouped(tally, tallied).where(*where_tallied)
    )


def _grouped(table: Table, columns: Sequence[ColumnElement[Any]]) -> Select[*tuple[Any, ...]]:
    named = [column.label(f"key{place}") for place, column in enumerate(columns)]
    attempts = cast(func.sum(table.c.attempts), BigInteger).label("attempts")
    return select(*named, attempts).group_by(*named)
