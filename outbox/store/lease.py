"""The lease of a claim: started once, renewed while its worker lives, deleted at its end."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, delete, update

from . import batch
from .database import Database
from .rows import Batch


def start(database: Database, token: UUID, *, lease: float, worker: str) -> Batch | None:
    """Start the batch of this token and return its mails, or None.

    None means that the task came twice or late: a lease starts once, and one that was rescued is
    gone. Nothing was changed then.
    """

    def work(connection: Connection) -> Batch | None:
        table = database.tables.lease
        started = connection.execute(
            update(table)
            .where(table.c.token == token, table.c.started_at.is_(None))
            .values(
                started_at=database.now(),
                expires_at=database.now(lease),
                suspected_at=None,
                worker=worker,
            )
        )
        if started.rowcount != 1:
            return None
        return batch.load(connection, database, token)

    return database.run(work)


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
    """Delete the lease of a batch of which every mail's result is recorded."""
    database.run(lambda connection: end(connection, database, token))


def end(connection: Connection, database: Database, token: UUID) -> None:
    """Delete the lease; its last rows have been recorded or given back in this transaction."""
    table = database.tables.lease
    connection.execute(delete(table).where(table.c.token == token))
