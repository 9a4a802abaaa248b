"""unknown, failed → sent, failed, pending: a person decides."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, case, select, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status, sources
from ..conditions import having
from ..connection.database import Database
from ..connection.endings import note
from ..connection.row_locks import Locked, among, rows

_STUCK = (Status.FAILED, Status.UNKNOWN)


def retry(connection: Connection, database: Database, ids: Collection[int]) -> Sequence[Locked]:
    """Make failed and unknown emails pending again; return their rows as they were.

    Their counters start anew. An email with several recipients is not sent again to those who got
    it. A doubt stays: a copy may have arrived, whatever happens to the next one, so the email ends
    only `sent` or `unknown`. It counts as the first doubt, so that the next one is not the last.
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
    return list(chosen.values())


def statuses(connection: Connection, database: Database, ids: Collection[int]) -> dict[int, Status]:
    """Return the statuses of these emails by id, without those that do not exist."""
    email = database.tables.email.c
    found = select(email.id, email.status).where(among(database, ids))
    return {row.id: Status(row.status) for row in connection.execute(found)}


def resolve(
    connection: Connection, database: Database, ids: Collection[int], outcome: Status
) -> dict[int, Status]:
    """Resolve unknown emails as `sent` or `failed`, as a person found out; return the new statuses.

    An email ends `sent` if any of its recipients has a copy. If the doubt stopped the email before
    it was sent to some recipients, it is pending again for these. Raises ValueError for another
    `outcome`.
    """
    if Status.UNKNOWN not in sources(outcome) or outcome is Status.PENDING:
        raise ValueError("outcome must be sent or failed, to resolve an email in doubt")
    email = database.tables.email
    doubtful = among(database, ids) & (email.c.status == Status.UNKNOWN)
    chosen = _locked(connection, database, doubtful)
    _turn(connection, database, chosen, RecipientStatus.UNKNOWN, RecipientStatus(outcome))
    several = [row.id for row in chosen.values() if row.recipients > 1]
    waiting = having(connection, database, several, RecipientStatus.PENDING)
    sent = having(connection, database, several) - waiting
    settled = {"unknown_count": 0, "unknown_token": None}
    again = {"due_at": database.now(), "finished_at": None}
    over = {"finished_at": database.now()}
    now: dict[int, Status] = {}
    for group, status, values in (
        (waiting, Status.PENDING, again),
        (sent, Status.SENT, over),
        (chosen.keys() - waiting - sent, outcome, over),
    ):
        if group:
            ours = update(email).where(among(database, group))
            connection.execute(ours.values(status=status, **settled, **values))
            now |= dict.fromkeys(group, status)
    note(connection, ((status, email_id) for email_id, status in now.items()))
    return now


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
    """Set recipients of these locked emails from the status `old` to `new`."""
    recipient = database.tables.recipient
    connection.execute(
        update(recipient)
        .where(recipient.c.email_id.in_(sorted(emails)), recipient.c.status == old)
        .values(status=new)
    )
