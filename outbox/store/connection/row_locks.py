"""Rows of emails, locked for a write of ours that waits for nobody.

A person's transaction holds its rows for as long as it stays open, and a worker has other emails to
see to: so each of our writes first locks what is free, and leaves the rest as it is. SQLite has one
writer at a time, who holds everything: there every row is free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias, TypeVar, TypeVarTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    select,
)

from .database import Database
from .list_parts import is_among

Result = TypeVar("Result")
Change: TypeAlias = Callable[[Connection, Database, list[int]], Result]
"""What changes emails that it is given by their ids; it returns what it has changed."""
Columns = TypeVarTuple("Columns")
Locked = Row[int, int, int]
"""A locked row: its id, how often it was unknown, and how many recipients it has."""


def lock(connection: Connection, database: Database, which: ColumnElement[bool]) -> list[Locked]:
    """Lock the emails that fulfil `which`, but for those that others hold; return their rows."""
    email = database.tables.email.c
    return list(connection.execute(free(rows(database).where(which).order_by(email.id))))


def lock_ids(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> frozenset[int]:
    """Do so, and return their ids only."""
    email = database.tables.email.c
    return _ids(connection, free(select(email.id).where(which).order_by(email.id)))


def lock_claim(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> frozenset[int]:
    """Do so with what a claim holds; `which` asks for its token."""
    email = database.tables.email
    held = select(email.c.id).where(which).order_by(email.c.id)
    for dialect in ("mysql", "mariadb"):
        # By the order of ids it would pass over all rows of the table.
        held = held.with_hint(email, "FORCE INDEX (ix_outbox_email_token)", dialect)
    return _ids(connection, free(held))


def on_free(
    connection: Connection, database: Database, work: Change[Result], ids: Collection[int]
) -> tuple[Result, list[int]]:
    """Run `work` on those of these emails that nobody holds; return its result, and who is held."""
    chosen = among(database, ids)
    ours = lock_ids(connection, database, chosen)
    held = seen(connection, database, chosen) - ours
    return work(connection, database, sorted(ours)), sorted(held)


def rows(database: Database) -> Select[int, int, int]:
    """Select what is asked of a locked row."""
    email = database.tables.email.c
    return select(email.id, email.unknown_count, email.recipients)


def free(statement: Select[*Columns]) -> Select[*Columns]:
    """Have the statement lock the rows that nobody holds, and pass over the others."""
    return statement.with_for_update(key_share=True, skip_locked=True)


def seen(connection: Connection, database: Database, which: ColumnElement[bool]) -> frozenset[int]:
    """Return the emails that fulfil `which`, whoever holds them: a plain read of what is committed.

    A row that was not free and is among them is held by a transaction that has not ended yet.
    """
    return _ids(connection, select(database.tables.email.c.id).where(which))


def _ids(connection: Connection, statement: Select[int]) -> frozenset[int]:
    return frozenset(connection.execute(statement).scalars())


def among(database: Database, ids: Iterable[int]) -> ColumnElement[bool]:
    """The email is one of these."""
    return is_among(database, database.tables.email.c.id, ids)
