"""Lists of any length as values of statements: in parts that every database takes.

PostgreSQL takes 65,535 values in a statement, SQLite 32,766.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, any_, literal
from sqlalchemy.dialects.postgresql import ARRAY

from .database import Database

PART = 1000
"""Items in one statement. Lists of a batch's emails may be longer: OUTBOX_BATCH bounds them."""

Item = TypeVar("Item")


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in their order, in parts of which none is empty or too long."""
    for start in range(0, len(items), PART):
        yield items[start : start + PART]


def is_among(database: Database, key: Column[Any], ids: Iterable[int]) -> ColumnElement[bool]:
    """The key is one of these ids: on PostgreSQL by an array, which is one value.

    Its statement is always the same, and written in a fraction of the time.
    """
    chosen = sorted(ids)
    if database.dialect == "postgresql":
        return key == any_(literal(chosen, ARRAY(BigInteger)))
    return key.in_(chosen)
