"""How a mail ends that is not to be sent any more: the status never lies."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Exists, case, exists

from ..domain.conclusion import RecipientStatus
from ..domain.lifecycle import Status
from .database import Database


def ended(database: Database, target: Status) -> dict[str, Any]:
    """Return the values that end a mail as `target`, for an UPDATE.

    One with unresolved doubt ends `unknown` instead, and one of which a recipient has already got
    a copy ends `sent`.
    """
    email = database.tables.email
    status = case(
        (email.c.doubts > 0, Status.UNKNOWN),
        (partly_sent(database), Status.SENT),
        else_=target,
    )
    return {"status": status, "due_at": None, "finished_at": database.now()}


def partly_sent(database: Database) -> Exists:
    """A recipient of the mail has a copy."""
    email, recipient = database.tables.email, database.tables.recipient
    return exists().where(
        recipient.c.email_id == email.c.id, recipient.c.status == RecipientStatus.SENT
    )
