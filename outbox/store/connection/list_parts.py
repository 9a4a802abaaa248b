"""Lists of any length as values of statements: in parts that every database takes.

PostgreSQL takes 65,535 values in a statement, SQLite 32,766.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, any_, bindparam, literal
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
    """The key is one of these ids: where the database has arrays, by one value.

    Its statement is always the same, and written in a fraction of the time.
    """
    chosen = sorted(ids)
    if database.facts.arrays:
        return key == any_(literal(chosen, ARRAY(BigInteger)))
    return key.in_(chosen)


def is_among_bound(database: Database, key: Column[Any], name: str) -> ColumnElement[bool]:
    """The key is one of the ids that the statement is given under this name when it runs."""
    if database.facts.arrays:
        return key == any_(bindparam(name, type_=ARRAY(BigInteger)))
    return key.in_(bindparam(name, expanding=True))
