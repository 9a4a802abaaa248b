"""Forgets what was running where the tables came from: a copy has none of it, nor has a restore."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, update

from ..connection.database import Database
from ..control.counter import BEAT, HEALTH, RESTORED, put


def forget_running(connection: Connection, database: Database) -> None:
    """Forget workers and beats, the marks of beat and health, and the state of the servers.

    A process that runs here after all writes its row again within ten seconds. And it marks which
    refusals are from before: none of them is taken back, because what failed then may have been
    sent since.
    """
    tables = database.tables
    last = select(func.coalesce(func.max(tables.attempt.c.id), 0))
    put(connection, database, RESTORED, connection.execute(last).scalar_one())
    connection.execute(delete(tables.worker))
    connection.execute(delete(tables.counter).where(tables.counter.c.name.in_((BEAT, HEALTH))))
    connection.execute(delete(tables.breaker))
    # The rows stay: batches that take a connection to a server with a cap lock them.
    connection.execute(update(tables.server).values(recovered_at=None))
