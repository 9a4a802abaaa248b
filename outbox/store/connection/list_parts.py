"""Splits lists of any length into parts that every database takes as values of a statement.

PostgreSQL takes 65,535 values in a statement, SQLite 32,766.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, ColumnElement, any_, bindparam, literal
from sqlalchemy.dialects.postgresql import ARRAY

from .database import Database

PART = 1000
"""Items in one statement. A list of a batch's emails may be longer: OUTBOX_BATCH bounds it."""

Item = TypeVar("Item")


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in their order, in parts of 1 to PART items."""
    for start in range(0, len(items), PART):
        yield items[start : start + PART]


def among(database: Database, ids: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition: the email is one of these."""
    return is_among(database, database.tables.email.c.id, ids)


def is_among(database: Database, key: Column[Any], ids: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition: the key is one of these ids.

    On a database with arrays they are one value. Then the statement's text is always the same, and
    is built in a fraction of the time.
    """
    chosen = sorted(ids)
    if database.facts.arrays:
        return key == any_(literal(chosen, ARRAY(BigInteger)))
    return key.in_(chosen)


def is_among_bound(database: Database, key: Column[Any], name: str) -> ColumnElement[bool]:
    """Return the condition: the key is one of the ids in the statement's parameter `name`."""
    if database.facts.arrays:
        return key == any_(bindparam(name, type_=ARRAY(BigInteger)))
    return key.in_(bindparam(name, expanding=True))
