"""The counts of attempts: appended as tallies with each recorded window, and summed up later.

One row of the attempt log is one unit. So the counts can be compared with the log, and they stay
when the purge removes the log.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, SmallInteger, String, Table

from .column_types import ID, LANE, SERVER_LENGTH, TABLE_OPTIONS

KEY = ("minute", "server", "route", "priority", "verdict", "code", "bin")
"""What attempts are counted by. Each of these columns is in both tables."""


def tally(metadata: MetaData) -> Table:
    """Return the tallies: some rows per recorded window, removed when a sweep sums them up.

    Workers only append, so that none waits for another. A negative number takes attempts back.
    """
    return Table(
        "outbox_tally",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("attempts", Integer, nullable=False),
        *_key(),
        sqlite_autoincrement=True,
        **TABLE_OPTIONS,
    )


def stat(metadata: MetaData) -> Table:
    """Return the sums: of each minute, of each hour and of all time."""
    return Table(
        "outbox_stat",
        metadata,
        Column("span", Integer, primary_key=True, autoincrement=False),  # seconds; 0: all time
        *_key(primary_key=True),
        Column("attempts", BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )


def _key(*, primary_key: bool = False) -> list[Column[Any]]:
    """Return new columns with the names of `KEY`."""
    columns = (
        # In which the attempt ended, or the first of the hour, since 1970 in UTC; 0 of all time.
        ("minute", Integer),
        ("server", String(SERVER_LENGTH)),
        ("route", LANE),
        ("priority", SmallInteger),
        ("verdict", String(10)),
        ("code", SmallInteger),
        # Of the seconds until the email was accepted: see `domain/figures/histogram.py`.
        ("bin", SmallInteger),
    )
    return [
        Column(name, type_, primary_key=primary_key, autoincrement=False, nullable=False)
        for name, type_ in columns
    ]
