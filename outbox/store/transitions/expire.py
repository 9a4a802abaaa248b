"""pending → expired, sent, unknown: emails whose time ran out while they waited."""

from __future__ import annotations

from sqlalchemy import Connection

from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.one_by_one import each_for_itself
from ..connection.row_locks import free, rows
from ..due_times import by_expiry, expired
from ..end_emails import end_emails

EXPIRE_CHUNK = 1000


def expire(database: Database) -> int:
    """End up to a thousand waiting emails whose `expires_at` has passed; return how many."""
    email = database.tables.email
    over = expired(database)

    def work(connection: Connection) -> int:
        # Ordered by the index: ordered by id, the planner may read every email to find the few.
        # The order of other locks does not matter here, because locked rows are skipped.
        statement = rows(database).where(over).order_by(*by_expiry(email)).limit(EXPIRE_CHUNK)
        found = {row.id: row for row in connection.execute(free(statement, email))}

        def end_these(ids: frozenset[int]) -> None:
            end_emails(connection, database, [found[email_id] for email_id in ids], Status.EXPIRED)

        return len(found) - len(each_for_itself(connection, found, end_these, "expired"))

    return database.run(work)
