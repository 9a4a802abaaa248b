"""failed, unknown → pending: a person retries an email: it is sent as it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, case, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import Locked, lock_by_id, seen
from ..end_emails import forget_end
from ..recipients import turn_recipients

RETRIED = (Status.FAILED, Status.UNKNOWN)
"""The statuses from which an email can be retried."""


def retry(
    connection: Connection,
    database: Database,
    ids: Collection[int],
    statuses: Collection[Status] = RETRIED,
) -> Sequence[Locked]:
    """Make the emails of these statuses pending again; return their rows as they were.

    An email whose body was removed is left as it is: nothing of it could be sent. So is one whose
    `expires_at` has passed: the next sweep would end it, and nobody would see it again.
    Their counters start anew. An email with several recipients is not sent again to those who got
    it. A doubt stays: a copy may have arrived, whatever happens to the next one, so the email ends
    only `sent` or `unknown`. It counts as the first doubt, so that the next one is not the last.
    """
    email = database.tables.email
    # The verb has locked these rows before, by `on_free`. So this waits for nobody.
    whole = email.c.status.in_(statuses) & email.c.redacted_at.is_(None) & ~_is_over(database)
    chosen = lock_by_id(connection, database, among(database, ids) & whole)
    several = [row.id for row in chosen.values() if row.recipients > 1]
    turn_recipients(connection, database, several, RecipientStatus.FAILED, RecipientStatus.PENDING)
    fresh = {"attempts": 0, "crashes": 0, "waited": 0}
    values = {**fresh, "unknown_token": None, "finished_at": None}
    connection.execute(
        update(email)
        .where(among(database, chosen))
        .values(
            status=Status.PENDING,
            due_at=database.now(),
            unknown_count=case((email.c.unknown_count > 0, 1), else_=0),
            **values,
        )
    )
    forget_end(connection, database, chosen)
    return list(chosen.values())


def redacted(
    connection: Connection, database: Database, ids: Collection[int], statuses: Collection[Status]
) -> frozenset[int]:
    """Return those of these emails that cannot be retried because their body was removed."""
    email = database.tables.email.c
    gone = among(database, ids) & email.status.in_(statuses) & email.redacted_at.is_not(None)
    return seen(connection, database, gone)


def expired(
    connection: Connection, database: Database, ids: Collection[int], statuses: Collection[Status]
) -> frozenset[int]:
    """Return those of these emails that cannot be retried because their `expires_at` has passed."""
    email = database.tables.email.c
    over = among(database, ids) & email.status.in_(statuses) & _is_over(database)
    return seen(connection, database, over)


def _is_over(database: Database) -> ColumnElement[bool]:
    """Return the condition: the email's `expires_at` has passed. It is never NULL."""
    expires_at = database.tables.email.c.expires_at
    return expires_at.is_not(None) & (expires_at <= database.now())
