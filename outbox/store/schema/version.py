"""The schema's version. The schema itself carries it: in the name of an index.

A row would be lost on the way: migrations that Alembic writes by itself move tables and no rows,
and `create_all()` writes none. SQLite knows no comments. An index comes with each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Column, Index

VERSION = 6
"""Raised with every change of a table, a column, an index or a constraint. 0 is what had none."""

_PREFIX = "ix_outbox_schema_"


def mark(column: Column[object]) -> None:
    """Put the version on a column, of a table with few rows that are hardly ever written."""
    Index(f"{_PREFIX}{VERSION}", column)


def is_mark(index: str | None) -> bool:
    """Return whether an index is there for its name alone."""
    return bool(index) and str(index).startswith(_PREFIX)


def version_of(indexes: Iterable[str]) -> int:
    """Return the version among the names of a database's indexes, 0 where there is none."""
    numbers = [name.removeprefix(_PREFIX) for name in indexes if is_mark(name)]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
