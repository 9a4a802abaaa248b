"""unknown, failed → what a person says: sent, failed, or pending again."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, case, exists, select, update

from ..domain.conclusion import RecipientStatus
from ..domain.lifecycle import Status, sources
from .database import Database
from .ending import partly_sent


def retry(connection: Connection, database: Database, ids: list[int]) -> int:
    """Send failed and unknown mails again, with fresh counters; return how many are pending now.

    Of a mail with several recipients those who got it are not written to again.
    """
    email = database.tables.email
    stuck = email.c.id.in_(sorted(ids)) & email.c.status.in_([Status.FAILED, Status.UNKNOWN])
    undone = [RecipientStatus.FAILED, RecipientStatus.UNKNOWN]
    _turn(connection, database, stuck, undone, RecipientStatus.PENDING)
    values = {"attempts": 0, "deliveries": 0, "doubts": 0, "doubt_token": None}
    return connection.execute(
        update(email)
        .where(stuck)
        .values(status=Status.PENDING, due_at=database.now(), finished_at=None, **values)
    ).rowcount


def resolve(connection: Connection, database: Database, ids: list[int], outcome: Status) -> int:
    """Settle unknown mails as `sent` or `failed`, as a person found out; return how many.

    One of which a recipient has a copy ends `sent`, whoever else did not get it. One with
    recipients that nobody wrote to yet, as the doubt of the others stopped it, goes on to them.
    """
    if Status.UNKNOWN not in sources(outcome) or outcome is Status.PENDING:
        raise ValueError("a mail in doubt is resolved as sent or failed")
    email, recipient = database.tables.email, database.tables.recipient
    doubtful = email.c.id.in_(sorted(ids)) & (email.c.status == Status.UNKNOWN)
    _turn(connection, database, doubtful, [RecipientStatus.UNKNOWN], RecipientStatus(outcome))
    waiting = exists().where(
        recipient.c.email_id == email.c.id, recipient.c.status == RecipientStatus.PENDING
    )
    return connection.execute(
        update(email)
        .where(doubtful)
        .values(
            status=case(
                (waiting, Status.PENDING), (partly_sent(database), Status.SENT), else_=outcome
            ),
            doubts=0,
            doubt_token=None,
            due_at=case((waiting, database.now())),
            finished_at=case((waiting, None), else_=database.now()),
        )
    ).rowcount


def _turn(
    connection: Connection,
    database: Database,
    which: ColumnElement[bool],
    old: list[RecipientStatus],
    new: RecipientStatus,
) -> None:
    """Lock these mails, and turn their recipients; no other mail's recipients change."""
    email, recipient = database.tables.email, database.tables.recipient
    locked = select(email.c.id).where(which).order_by(email.c.id).with_for_update()
    chosen = connection.execute(locked).scalars().all()
    connection.execute(
        update(recipient)
        .where(recipient.c.email_id.in_(chosen), recipient.c.status.in_(old))
        .values(status=new)
    )
