"""pending → expired: emails whose time ran out while they waited."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection

from ..domain.lifecycle import Status
from .apart import each_for_itself
from .database import Database
from .ending import end
from .locking import free, rows

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
        statement = rows(database).where(over).order_by(email.c.expires_at).limit(CHUNK)
        found = {row.id: row for row in connection.execute(free(statement))}

        def end_these(ids: frozenset[int]) -> None:
            end(connection, database, [found[email_id] for email_id in ids], Status.EXPIRED)

        return len(found) - len(each_for_itself(connection, found, end_these, "expired"))

    return database.run(work)
