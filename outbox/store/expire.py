"""pending → expired: mails whose time ran out while they waited."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, select, update

from ..domain.lifecycle import Status
from .database import Database
from .ending import ended

CHUNK = 1000


def expired(database: Database) -> ColumnElement[bool]:
    """The mail waits and its time has run out; in the words of the partial index."""
    email = database.tables.email.c
    waits = email.finished_at.is_(None) & email.token.is_(None)
    return waits & email.expires_at.is_not(None) & (email.expires_at <= database.now())


def expire(database: Database) -> int:
    """End up to a thousand waiting mails whose `expires_at` has passed; return how many."""
    email = database.tables.email
    over = expired(database)

    def work(connection: Connection) -> int:
        # In the index's order: by the id, the planner may walk through every mail for the few. And
        # not in the order of other locks: what skips the locked ones waits for nobody.
        statement = select(email.c.id).where(over).order_by(email.c.expires_at).limit(CHUNK)
        ids = connection.execute(statement.with_for_update(skip_locked=True)).scalars().all()
        if not ids:
            return 0
        ending = update(email).where(email.c.id.in_(ids), over)
        return connection.execute(ending.values(**ended(database, Status.EXPIRED))).rowcount

    return database.run(work)
