"""The database's clock as one SQL expression. Leases and due times use no other clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Float, bindparam
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

MOMENT = DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
"""The type of points in time: always in UTC, to the microsecond if the database can.

It is a plain type with a variant, so that Alembic's migrations need only SQLAlchemy's types.
"""


class Offset:
    """Seconds that are added to the database's clock, also in statements that were built before."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class clock(FunctionElement[datetime]):  # noqa: N801  (reads as the SQL function that it is)
    """The database's time at this statement, plus some seconds.

    It is not the transaction's start: PostgreSQL's `now()` stands still in an open transaction.
    """

    type = MOMENT
    inherit_cache = True

    def __init__(self, seconds: Callable[[], float] = float) -> None:
        """Take the function that returns the seconds. Each run of the statement calls it."""
        super().__init__(bindparam(None, callable_=seconds, type_=Float(), unique=True))


def _seconds(element: clock, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.clauses, **kw)


@compiles(clock)
def _postgresql(element: clock, compiler: SQLCompiler, **kw: Any) -> str:
    # A sub-select is evaluated once, so that the comparison can use an index. The function alone is
    # volatile, and would be called for every row.
    seconds = _seconds(element, compiler, **kw)
    return f"(SELECT clock_timestamp() + make_interval(secs => {seconds}))"


@compiles(clock, "sqlite")
def _sqlite(element: clock, compiler: SQLCompiler, **kw: Any) -> str:
    # This is the form in which SQLAlchemy stores a datetime, so that texts compare as times.
    seconds = _seconds(element, compiler, **kw)
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', printf('%+.6f seconds', {seconds}))"


@compiles(clock, "mysql", "mariadb")
def _mysql(element: clock, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(utc_timestamp(6) + INTERVAL {_seconds(element, compiler, **kw)} SECOND)"


@compiles(clock, "mssql")
def _mssql(element: clock, compiler: SQLCompiler, **kw: Any) -> str:
    seconds = _seconds(element, compiler, **kw)
    return f"dateadd(millisecond, cast({seconds} * 1000 AS bigint), sysdatetimeoffset())"


_READS = {
    "postgresql": ("clock_timestamp()", "timestamptz '{} UTC'"),
    "sqlite": ("strftime('%Y-%m-%d %H:%M:%f000', 'now'", "strftime('%Y-%m-%d %H:%M:%f000', '{}'"),
    "mysql": ("utc_timestamp(6)", "timestamp'{}'"),
    "mariadb": ("utc_timestamp(6)", "timestamp'{}'"),
}
"""By dialect: how the outbox's statements read the clock, and what is a moment in that place."""
_OURS = re.compile(r"outbox_|make_interval\(secs|printf\('%\+\.6f seconds'|utc_timestamp\(6\) \+")
"""What only statements of the outbox have. The app's own statements read the true time."""


def can_stand_still(dialect: str) -> bool:
    """Return whether `at_moment` knows how statements of this dialect read the clock."""
    return dialect in _READS


def at_moment(statement: str, dialect: str, moment: datetime) -> str:
    """Return an outbox's statement with a moment where it reads the clock, for an app's tests.

    `moment` is in UTC. A statement that is not the outbox's is returned as it is.
    """
    if not _OURS.search(statement):
        return statement
    reads, form = _READS[dialect]
    return statement.replace(reads, form.format(moment.strftime("%Y-%m-%d %H:%M:%S.%f")))


def utc(value: datetime) -> datetime:
    """Return a stored time with its zone. SQLite, MySQL and MariaDB return UTC without a zone."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
