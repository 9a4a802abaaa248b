"""The parts of the tables: types, options, constraints and indexes for every database."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    event,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from ...domain.delivery.status import Status
from ...domain.scheduling.lanes import MAX_LANE
from ...domain.search.subject import MAX_SUBJECT

REPLY_LENGTH = 500
ENHANCED_LENGTH = 12
SERVER_LENGTH = 255
WORKER_LENGTH = 100
BOOT_LENGTH = 60
REASON_LENGTH = 200
"""The most characters of texts that come from outside. Longer texts are cut before writing."""

ID = BigInteger().with_variant(Integer, "sqlite")
BLOB = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
DIGEST = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
"""A SHA-256 digest. Without the variant MySQL makes a TINYBLOB: it cannot be indexed, and Alembic
sees it as changed each time."""
LANE = String(MAX_LANE).with_variant(String(MAX_LANE, collation="C"), "postgresql")
"""Sorted by code points on every database, as in Python: a sweep steps from lane to lane."""
SUBJECT = String(MAX_SUBJECT).with_variant(String(MAX_SUBJECT, collation="C"), "postgresql")
"""Sorted by code points, too: then all subjects with the same beginning are one range."""
EMPTY = text("''")
"""The default of an empty text. With a plain "" Alembic finds a difference in each comparison."""
TABLE_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}
_STORAGE = {
    # Leave room for the row versions of one claim and one window. Then an email stays on its
    # page, and opening a window is a HOT update. In the end the table is smaller than with 100.
    "fillfactor": 50,
    # By default a fifth of the table must be dead first. With millions of finished emails that
    # is a million dead entries at the head of the index of due emails.
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_vacuum_threshold": 10_000,
}
_TAKES_STORAGE = tuple(map(int, sqlalchemy.__version__.split(".")[:2])) >= (2, 1)
HOT_OPTIONS = TABLE_OPTIONS | ({"postgresql_with": _STORAGE} if _TAKES_STORAGE else {})
"""Options of a table whose rows change several times. They matter on PostgreSQL only."""


def hot(table: Table) -> Table:
    """Return the table with the storage options that SQLAlchemy 2.0 does not take from a Table.

    There `create_all` sets them. A migration has to, because Alembic does not see them.
    """
    if not _TAKES_STORAGE:
        options = ", ".join(f"{name} = {value}" for name, value in _STORAGE.items())
        change = DDL(f"ALTER TABLE %(fullname)s SET ({options})")  # type: ignore[no-untyped-call]
        event.listen(table, "after_create", change.execute_if(dialect="postgresql"))
    return table


def words(statuses: frozenset[Status] | type[Status]) -> str:
    return ", ".join(f"'{status}'" for status in sorted(statuses))


def exactly(statuses: frozenset[Status], column: str) -> str:
    """Return the condition: `column` has a value in these statuses and in no other."""
    listed = words(statuses)
    return (
        f"(status IN ({listed}) AND {column} IS NOT NULL)"
        f" OR (status NOT IN ({listed}) AND {column} IS NULL)"
    )


class given_in(ColumnElement[Any]):  # noqa: N801  (reads as the SQL that it is)
    """The value of a column, if the status is one of these; otherwise null.

    On PostgreSQL it is worded as the server tells it. With other words Alembic finds a difference
    in each comparison.
    """

    inherit_cache = False

    def __init__(self, statuses: frozenset[Status], column: str, *, postgresql: str) -> None:
        """Take the statuses, the column's name, and the name of its type on PostgreSQL."""
        self.statuses = statuses
        self.column = column
        self.postgresql = postgresql


@compiles(given_in)
def _portable(element: given_in, _: SQLCompiler, **__: Any) -> str:
    return f"CASE WHEN status IN ({words(element.statuses)}) THEN {element.column} END"


@compiles(given_in, "postgresql")
def _postgresql(element: given_in, _: SQLCompiler, **__: Any) -> str:
    listed = ", ".join(f"'{status}'::character varying" for status in sorted(element.statuses))
    return (
        f"CASE WHEN status::text = ANY (ARRAY[{listed}]::text[]) THEN {element.column}"
        f" ELSE NULL::{element.postgresql} END"
    )


def partial(name: str, *columns: Column[object], where: str, unique: bool = False) -> Index:
    """Return an index over the rows that fulfil `where`; a full index if there are no partial ones.

    The predicates use nullness instead of the status. So opening a window (claimed to sending)
    changes no index and stays a HOT update on PostgreSQL.
    """
    clause = text(where)
    return Index(
        name,
        *columns,
        unique=unique,
        postgresql_where=clause,
        sqlite_where=clause,
        mssql_where=clause,
    )
