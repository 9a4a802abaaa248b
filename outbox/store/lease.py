"""The lease of a claim: started once, renewed while its worker lives, deleted at its end."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Delete, Update, bindparam, delete, select, update

from . import batch
from .database import Database
from .rows import Batch


def start(database: Database, token: UUID, *, lease: float, worker: str) -> Batch | None:
    """Start the batch of this token and return its mails, or None.

    None means that the task came twice or late: a lease starts once, and one that was rescued is
    gone. Nothing was changed then.
    """

    def work(connection: Connection) -> Batch | None:
        statement = database.built(_start, lease)
        started = connection.execute(statement, {"claim": token, "by": worker})
        if started.rowcount != 1:
            return None
        return batch.load(connection, database, token)

    return database.run(work)


def _start(database: Database, lease: float) -> Update:
    table = database.tables.lease
    return (
        update(table)
        .where(table.c.token == bindparam("claim"), table.c.started_at.is_(None))
        .values(
            started_at=database.now(),
            expires_at=database.now(lease),
            suspected_at=None,
            worker=bindparam("by"),
        )
    )


def renew(database: Database, token: UUID, *, lease: float) -> bool:
    """Extend the lease by `lease` seconds from now; False when it is lost."""

    def work(connection: Connection) -> bool:
        table = database.tables.lease
        renewed = connection.execute(
            update(table)
            .where(table.c.token == token)
            .values(expires_at=database.now(lease), suspected_at=None)
        )
        return renewed.rowcount == 1

    return database.run(work)


def drop(database: Database, token: UUID) -> None:
    """Delete the lease of a batch of which every email's result is recorded."""

    def work(connection: Connection) -> None:
        if connection.execute(database.built(_drop), {"claim": token}).rowcount == 0:
            leave(connection, database, token, unsent=True)

    database.run(work)


def _drop(database: Database) -> Delete:
    held = select(database.tables.email.c.id).where(
        database.tables.email.c.token == bindparam("claim")
    )
    return _end(database).where(~held.exists())


def end(connection: Connection, database: Database, token: UUID) -> None:
    """Delete the lease; its last rows have been recorded or given back in this transaction."""
    connection.execute(database.built(_end), {"claim": token})


def _end(database: Database) -> Delete:
    table = database.tables.lease
    return delete(table).where(table.c.token == bindparam("claim"))


def leave(connection: Connection, database: Database, token: UUID, *, unsent: bool) -> None:
    """Leave the lease of a batch that is over to the rows that a person's transaction holds.

    It has run out, and so takes no slot, no place under a server's cap, and is no probe any more.
    Where all that is left is `unsent` it counts as never started: a sweep gives it back as soon as
    that transaction ends, and charges nobody.
    """
    table = database.tables.lease
    values: dict[str, Any] = {"expires_at": database.now(), "suspected_at": None, "server": None}
    if unsent:
        values |= {"started_at": None, "worker": None, "mails": 0}
    connection.execute(update(table).where(table.c.token == token).values(**values))
    breaker = database.tables.breaker
    connection.execute(update(breaker).where(breaker.c.prober == token).values(prober=None))
