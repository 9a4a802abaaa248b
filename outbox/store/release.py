"""claimed → pending (given back), expired, suppressed: what is claimed and will not be sent."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, select, update

from ..domain.conclusion import RecipientStatus
from ..domain.lifecycle import Status
from .database import Database
from .ending import ended


def give_back(connection: Connection, database: Database, token: UUID) -> int:
    """Give back, unsent and uncharged, all that this claim still holds; return how many.

    The caller knows that it sent none of them. What expired meanwhile ends here. A mail keeps its
    place: its due time is the first one again.
    """
    email = database.tables.email
    held = email.c.token == token
    expired = (email.c.status == Status.CLAIMED) & (email.c.expires_at <= database.now())
    end_claimed(connection, database, held & expired, Status.EXPIRED)
    due = func.coalesce(email.c.send_at, email.c.created_at)
    returned = connection.execute(
        update(email).where(held).values(status=Status.PENDING, token=None, due_at=due)
    )
    return returned.rowcount


def suppress(connection: Connection, database: Database, token: UUID, ids: Sequence[int]) -> None:
    """End the claimed mails of which every recipient is suppressed."""
    email = database.tables.email
    held = (
        (email.c.token == token) & (email.c.status == Status.CLAIMED) & email.c.id.in_(sorted(ids))
    )
    # Locked first: of a lease that is lost meanwhile no recipient changes either.
    locked = select(email.c.id).where(held).order_by(email.c.id).with_for_update()
    ours = connection.execute(locked).scalars().all()
    end_claimed(connection, database, held, Status.SUPPRESSED)
    recipient = database.tables.recipient
    connection.execute(
        update(recipient)
        .where(recipient.c.email_id.in_(ours), recipient.c.status == RecipientStatus.PENDING)
        .values(status=RecipientStatus.SUPPRESSED)
    )


def end_claimed(
    connection: Connection, database: Database, which: ColumnElement[bool], target: Status
) -> int:
    """End claimed mails as `target`, or as what the truth about them is; return how many."""
    email = database.tables.email
    statement = update(email).where(which).values(token=None, **ended(database, target))
    return connection.execute(statement).rowcount
