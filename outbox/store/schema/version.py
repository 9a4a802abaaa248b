"""The schema's version, which the schema itself carries in the name of an index.

A row would not do: migrations that Alembic generates, and `create_all()`, write no rows. A comment
would not do, because SQLite has none. An index is created in each of these cases.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Column, Index

VERSION = 12
"""Raise it with each change of a table, column, index or constraint. 0: a schema without a mark."""

_PREFIX = "ix_outbox_schema_"


def mark(column: Column[object]) -> None:
    """Put the version on a column. Its table should have few rows that hardly ever change."""
    Index(f"{_PREFIX}{VERSION}", column)


def is_mark(index: str | None) -> bool:
    """Return whether an index exists only for its name, which carries the version."""
    return bool(index) and str(index).startswith(_PREFIX)


def version_of(indexes: Iterable[str]) -> int:
    """Return the version from the names of a database's indexes; 0 if there is none."""
    numbers = [name.removeprefix(_PREFIX) for name in indexes if is_mark(name)]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
