"""unknown, failed → what a person says: sent, failed, or pending again."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, case, func, select, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status, sources
from ..conditions import having
from ..connection.database import Database
from ..connection.row_locks import Locked, among, rows

_STUCK = (Status.FAILED, Status.UNKNOWN)


def retry(connection: Connection, database: Database, ids: Collection[int]) -> int:
    """Send failed and unknown emails again, with fresh counters; return how many are pending now.

    Of one with several recipients those who got it are not written to again. A doubt stays: a copy
    may have arrived whatever becomes of the next one, so the email ends only `sent` or `unknown`.
    It counts as the first doubt, so that the next one is not the last already.
    """
    email = database.tables.email
    chosen = _locked(connection, database, among(database, ids) & email.c.status.in_(_STUCK))
    _turn(connection, database, chosen, RecipientStatus.FAILED, RecipientStatus.PENDING)
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
    return len(chosen)


def count_unknown(connection: Connection, database: Database, ids: Collection[int]) -> int:
    """Return of how many of these emails, pending again, a copy may have arrived already."""
    email = database.tables.email.c
    doubtful = among(database, ids) & (email.status == Status.PENDING) & (email.unknown_count > 0)
    return connection.execute(select(func.count()).where(doubtful)).scalar_one()


def resolve(
    connection: Connection, database: Database, ids: Collection[int], outcome: Status
) -> int:
    """Settle unknown emails as `sent` or `failed`, as a person found out; return how many.

    One of which a recipient has a copy ends `sent`, whoever else did not get it. One with
    recipients that nobody wrote to yet, as the doubt of the others stopped it, goes on to them.
    """
    if Status.UNKNOWN not in sources(outcome) or outcome is Status.PENDING:
        raise ValueError("an email in doubt is resolved as sent or failed")
    email = database.tables.email
    doubtful = among(database, ids) & (email.c.status == Status.UNKNOWN)
    chosen = _locked(connection, database, doubtful)
    _turn(connection, database, chosen, RecipientStatus.UNKNOWN, RecipientStatus(outcome))
    several = [row.id for row in chosen.values() if row.recipients > 1]
    waiting = having(connection, database, several, RecipientStatus.PENDING)
    sent = having(connection, database, several) - waiting
    settled = {"unknown_count": 0, "unknown_token": None}
    again = {"status": Status.PENDING, "due_at": database.now(), "finished_at": None}
    for group, values in (
        (waiting, again),
        (sent, {"status": Status.SENT, "finished_at": database.now()}),
        (chosen.keys() - waiting - sent, {"status": outcome, "finished_at": database.now()}),
    ):
        if group:
            ours = update(email).where(among(database, group))
            connection.execute(ours.values(**settled, **values))
    return len(chosen)


def _locked(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> dict[int, Locked]:
    """Lock these emails in the order of their ids."""
    email = database.tables.email.c
    statement = rows(database).where(which).order_by(email.id).with_for_update(key_share=True)
    return {row.id: row for row in connection.execute(statement)}


def _turn(
    connection: Connection,
    database: Database,
    emails: Collection[int],
    old: RecipientStatus,
    new: RecipientStatus,
) -> None:
    """Turn the recipients of these locked emails; no other email's recipients change."""
    recipient = database.tables.recipient
    connection.execute(
        update(recipient)
        .where(recipient.c.email_id.in_(sorted(emails)), recipient.c.status == old)
        .values(status=new)
    )
