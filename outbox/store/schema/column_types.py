"""What the tables are built of: types, options, constraints and indexes for every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, text
from sqlalchemy.dialects import mysql

from ...domain.delivery.status import Status
from ...domain.scheduling.lanes import MAX_LANE

REPLY_LENGTH = 500
ENHANCED_LENGTH = 12
SERVER_LENGTH = 255
WORKER_LENGTH = 100
REASON_LENGTH = 200
"""Characters of texts that come from outside. What is longer is cut before it is written."""

ID = BigInteger().with_variant(Integer, "sqlite")
BLOB = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
DIGEST = LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
"""A SHA-256. MySQL would make a TINYBLOB of it: not to be indexed, and ever changed to Alembic."""
LANE = String(MAX_LANE).with_variant(String(MAX_LANE, collation="C"), "postgresql")
"""Sorted by code points on every database, as Python sorts: a survey goes from lane to lane."""
EMPTY = text("''")
"""A default of no characters: of a plain "" Alembic finds a difference in each comparison."""
TABLE_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}
HOT_OPTIONS: dict[str, Any] = TABLE_OPTIONS | {
    "postgresql_with": {
        # Room for the versions of one claim and one window: an email stays on its page, and opening
        # is a HOT update. In the end the table is smaller than one filled to the brim.
        "fillfactor": 50,
        # By default a fifth of the table has to die first: a million dead entries at the head of
        # the index of due emails, where millions of finished ones are kept.
        "autovacuum_vacuum_scale_factor": 0.01,
        "autovacuum_vacuum_threshold": 10_000,
    }
}
"""Of a table whose rows change several times; on MariaDB and SQLite as any other."""


def words(statuses: frozenset[Status] | type[Status]) -> str:
    return ", ".join(f"'{status}'" for status in sorted(statuses))


def exactly(statuses: frozenset[Status], column: str) -> str:
    """`column` has a value in these statuses and in no other."""
    listed = words(statuses)
    return (
        f"(status IN ({listed}) AND {column} IS NOT NULL)"
        f" OR (status NOT IN ({listed}) AND {column} IS NULL)"
    )


def partial(name: str, *columns: Column[object], where: str, unique: bool = False) -> Index:
    """An index over the rows that matter; where a database has none such, a full one.

    The predicates speak of nullness and not of the status, so that opening a window (claimed to
    sending) touches no index and stays a HOT update on PostgreSQL.
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
