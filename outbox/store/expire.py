"""pending → expired: mails whose time ran out while they waited."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from ..domain.lifecycle import Status
from .database import Database
from .ending import ended

CHUNK = 1000


def expire(database: Database) -> int:
    """End up to a thousand waiting mails whose `expires_at` has passed; return how many."""
    email = database.tables.email
    expires = email.c.expires_at
    over = email.c.due_at.is_not(None) & expires.is_not(None) & (expires <= database.now())

    def work(connection: Connection) -> int:
        statement = select(email.c.id).where(over).order_by(email.c.id).limit(CHUNK)
        ids = connection.execute(statement.with_for_update(skip_locked=True)).scalars().all()
        if not ids:
            return 0
        ending = update(email).where(email.c.id.in_(ids), over)
        return connection.execute(ending.values(**ended(database, Status.EXPIRED))).rowcount

    return database.run(work)
