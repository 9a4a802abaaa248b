"""pending, claimed → cancelled, sent, unknown: withdrawn in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, or_, select, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status, sources
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import Locked, locking, rows
from ..end_emails import end_emails
from ..session.unread_results import refuse_unread

CANCEL_CHUNK = 1000


def withdraw(
    connection: Connection,
    database: Database,
    *,
    id: int | None = None,  # noqa: A002  (the public name of the argument)
    key: str | None = None,
    tag: str | None = None,
) -> int:
    """Withdraw the unsent emails with this id, key or tag; return how many are now cancelled.

    A claimed email loses its token, so its window will not open. An email in an open window can no
    longer be withdrawn. An email in doubt ends `unknown` and is not counted. Raises TypeError
    unless exactly one of `id`, `key` and `tag` is given.
    """
    ids = waiting(connection, database, id=id, key=key, tag=tag)
    chunks = (ids[start : start + CANCEL_CHUNK] for start in range(0, len(ids), CANCEL_CHUNK))
    return sum(withdraw_ids(connection, database, chunk) for chunk in chunks)


def waiting(
    connection: Connection,
    database: Database,
    *,
    id: int | None = None,  # noqa: A002
    key: str | None = None,
    tag: str | None = None,
) -> Sequence[int]:
    """Return the ids of the emails that `withdraw` would withdraw. Raises TypeError as it does.

    A plain read finds the emails, and then they are locked by their ids. Under REPEATABLE READ
    MariaDB and MySQL lock the gap where a locking read finds nothing. Other requests' enqueues
    would then wait until the caller's transaction ends.
    """
    email = database.tables.email
    which: list[ColumnElement[bool]] = [
        column == value
        for column, value in ((email.c.id, id), (email.c.key, key), (email.c.tag, tag))
        if value is not None
    ]
    if len(which) != 1:
        raise TypeError("cancel takes exactly one of id, key and tag")
    if tag is not None:
        # The statuses say so already. But a tag may have millions of emails that have ended, and
        # PostgreSQL finds those that wait by the indexes that have nothing else.
        which.append(or_(email.c.due_at.is_not(None), email.c.token.is_not(None)))
    refuse_unread(connection)
    found = select(email.c.id).where(*which, _waits(database)).order_by(email.c.id)
    return connection.execute(found).scalars().all()


def _waits(database: Database) -> ColumnElement[bool]:
    return database.tables.email.c.status.in_(sources(Status.CANCELLED))


def withdraw_ids(connection: Connection, database: Database, ids: Sequence[int]) -> int:
    """Withdraw those of these emails that still wait, even if they were claimed since the read."""
    if (own := backend_of(database.dialect).withdraw) is not None:
        return own(connection, database, ids)
    locked = _lock(connection, database, among(database, ids) & _waits(database))
    _leave_out(connection, database, [row.id for row in locked if row.recipients > 1])
    return end_emails(connection, database, locked, Status.CANCELLED)


def _lock(
    connection: Connection, database: Database, which: ColumnElement[bool]
) -> Sequence[Locked]:
    """Lock these rows until the caller's transaction ends. Wait for other writers to finish."""
    email, wanted = database.tables.email, rows(database).where(which)
    if database.facts.one_writer:  # a write that changes nothing takes the write lock
        written = update(email).where(which).values(recipients=email.c.recipients)
        return connection.execute(written.returning(*wanted.selected_columns)).all()
    locked = locking(wanted.order_by(email.c.id), email, key_share=True)
    return connection.execute(locked).all()


def _leave_out(connection: Connection, database: Database, ids: Sequence[int]) -> None:
    """Mark the waiting recipients as failed, so that resolving a doubt never sends to them."""
    table = database.tables.recipient
    if ids:
        connection.execute(
            update(table)
            .where(table.c.email_id.in_(ids), table.c.status == RecipientStatus.PENDING)
            .values(status=RecipientStatus.FAILED, reply="withdrawn")
        )
