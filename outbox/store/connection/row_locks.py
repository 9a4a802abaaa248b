"""Locks rows of emails for a write. Workers and sweeps do not wait for other transactions.

A user's transaction keeps rows locked as long as it stays open, and a worker must not wait for it.
So each write first locks the free rows, and leaves the others as they are. SQLite has one writer at
a time, which locks everything: there every row is free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias, TypeVar, TypeVarTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    select,
)

from .database import Database
from .list_parts import among

Result = TypeVar("Result")
Change: TypeAlias = Callable[[Connection, Database, list[int]], Result]
"""Takes ids, changes these emails, and returns what it has changed."""
Columns = TypeVarTuple("Columns")
_FOR_SHARE = "use_mysql_for_share"
Locked = Row[int, int, int, bool]
"""A locked row: its id, how often its result was unknown, how many recipients it has, and whether
its body goes with its end."""


def lock(connection: Connection, database: Database, which: ColumnElement[bool]) -> list[Locked]:
    """Lock the emails that fulfil `which` and that are free; return their rows."""
    email = database.tables.email.c
    found = rows(database).where(which).order_by(email.id)
    return list(connection.execute(free(found, database.tables.email)))


def lock_ids(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> frozenset[int]:
    """Lock emails as `lock` does; return only their ids."""
    email = database.tables.email.c
    found = select(email.id).where(which).order_by(email.id)
    return _ids(connection, free(found, database.tables.email))


def lock_by_id(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> dict[int, Locked]:
    """Lock the emails that fulfil `which` in the order of their ids. Wait for locked ones."""
    email = database.tables.email
    found = locking(rows(database).where(which).order_by(email.c.id), email, key_share=True)
    return {row.id: row for row in connection.execute(found)}


def lock_claim(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> frozenset[int]:
    """Lock emails of a claim as `lock_ids` does; `which` asks for its token."""
    email = database.tables.email
    statement = select(email.c.id).where(which).order_by(email.c.id)
    for dialect in ("mysql", "mariadb"):
        # To get the order of ids, it would otherwise read all rows of the table.
        statement = statement.with_hint(email, "FORCE INDEX (ix_outbox_email_token)", dialect)
    return _ids(connection, free(statement, email))


def on_free(
    connection: Connection, database: Database, work: Change[Result], ids: Collection[int]
) -> tuple[Result, list[int]]:
    """Run `work` on the free emails; return its result and the ids of the locked ones."""
    chosen = among(database, ids)
    ours = lock_ids(connection, database, chosen)
    locked = seen(connection, database, chosen) - ours
    return work(connection, database, sorted(ours)), sorted(locked)


def rows(database: Database) -> Select[int, int, int, bool]:
    """Return the statement that selects the columns of `Locked`."""
    email = database.tables.email.c
    return select(email.id, email.unknown_count, email.recipients, email.redact)


def free(statement: Select[*Columns], table: FromClause) -> Select[*Columns]:
    """Return the statement so that it locks the table's free rows and skips the others."""
    return locking(statement, table, key_share=True, skip_locked=True)


def locking(
    statement: Select[*Columns],
    table: FromClause,
    *,
    key_share: bool = False,
    skip_locked: bool = False,
) -> Select[*Columns]:
    """Return the statement so that it locks rows of the table; with `key_share` not their keys.

    SQL Server has no FOR UPDATE: SQLAlchemy drops it there, and the hint replaces it.
    """
    hint = "WITH (ROWLOCK, UPDLOCK, READPAST)" if skip_locked else "WITH (ROWLOCK, UPDLOCK)"
    hinted = statement.with_hint(table, hint, "mssql")
    return hinted.with_for_update(key_share=key_share, skip_locked=skip_locked)


def kept(connection: Connection, statement: Select[*Columns]) -> Select[*Columns]:
    """Return the statement so that the free rows it finds are not removed before the commit.

    Others may lock them the same way. For MySQL 8 SQLAlchemy before 2.1 writes the older
    `LOCK IN SHARE MODE`, which does not go with `SKIP LOCKED`. There this function writes the
    statement's end itself.
    """
    dialect = connection.dialect
    if getattr(dialect, "is_mariadb", None) is False and not hasattr(dialect, _FOR_SHARE):
        return statement.suffix_with("FOR SHARE SKIP LOCKED")
    return statement.with_for_update(read=True, key_share=True, skip_locked=True)


def seen(connection: Connection, database: Database, which: ColumnElement[bool]) -> frozenset[int]:
    """Return the emails that fulfil `which`, locked or not, by a plain read of committed rows.

    If a row could not be locked but is among them, another transaction has locked it.
    """
    return _ids(connection, select(database.tables.email.c.id).where(which))


def _ids(connection: Connection, statement: Select[int]) -> frozenset[int]:
    return frozenset(connection.execute(statement).scalars())
