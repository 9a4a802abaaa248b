"""The statuses of emails' recipients. The lock on an email's row protects these rows too."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select, update

from ..domain.delivery.outcome import RecipientStatus
from .connection.database import Database


def having(
    connection: Connection,
    database: Database,
    ids: Collection[int],
    status: RecipientStatus = RecipientStatus.SENT,
) -> frozenset[int]:
    """Return which of these emails have a recipient with this status."""
    if not ids:
        return frozenset()
    recipient = database.tables.recipient.c
    found = select(recipient.email_id).where(
        recipient.email_id.in_(sorted(ids)), recipient.status == status
    )
    return frozenset(connection.execute(found).scalars())


def turn_recipients(
    connection: Connection,
    database: Database,
    emails: Collection[int],
    old: RecipientStatus,
    new: RecipientStatus,
) -> None:
    """Set recipients of these locked emails, which have several, from the status `old` to `new`."""
    if not emails:
        return
    recipient = database.tables.recipient
    connection.execute(
        update(recipient)
        .where(recipient.c.email_id.in_(sorted(emails)), recipient.c.status == old)
        .values(status=new)
    )
