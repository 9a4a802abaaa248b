"""Reads what tells why one email waits: its lane, its batch, and what is in flight beside it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, func, select

from ..connection.database import Database
from ..control.lease import has_slot
from ..report_records import BatchDetails
from ..schema.clock import utc
from .progress import batches


class WaitingEmail(NamedTuple):
    """An email's lane, the token of its claim if it is claimed, and the database's time."""

    lane: str
    token: UUID | None
    now: datetime


def waiting_email(connection: Connection, database: Database, email_id: int) -> WaitingEmail:
    """Return what is known of this email now."""
    email = database.tables.email.c
    read = select(email.lane, email.token, database.now().label("now")).where(email.id == email_id)
    row = connection.execute(read).one()
    return WaitingEmail(row.lane, row.token, utc(row.now))


def batch_of(
    connection: Connection, database: Database, token: UUID, *, lease_seconds: float
) -> BatchDetails | None:
    """Return the batch of this token while it has unfinished emails; else None."""
    of = database.tables.email.c.token == token
    return next(iter(batches(connection, database, of, lease_seconds=lease_seconds)), None)


def used_slots(connection: Connection, database: Database) -> int:
    """Return how many batches take a slot now."""
    lease = database.tables.lease
    taken = select(func.count()).select_from(lease).where(has_slot(database))
    return int(connection.execute(taken).scalar_one())
