"""Ends emails that will not be sent any more, with a status that is true for each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select, update

from ..domain.delivery.outcome import RecipientStatus
from ..domain.delivery.status import Status
from .connection.database import Database
from .connection.endings import note
from .connection.list_parts import among
from .connection.row_locks import Locked


def expired(database: Database) -> ColumnElement[bool]:
    """Return the condition: the email waits and its time has run out.

    It is worded like the partial index, so that the database can use that index.
    """
    email = database.tables.email.c
    waits = email.finished_at.is_(None) & email.token.is_(None)
    return waits & email.expires_at.is_not(None) & (email.expires_at <= database.now())


def first_due(email: Table) -> ColumnElement[datetime]:
    """Return when an email was first due. With this time a returned email keeps its place."""
    return func.coalesce(email.c.send_at, email.c.created_at)


def end(connection: Connection, database: Database, rows: Sequence[Locked], target: Status) -> int:
    """End these locked emails as `target`, or as sent or unknown where `ends` says so.

    Returns how many ended as `target`. The lock on an email's row protects its recipients too, so
    a plain read of these is enough.
    """
    partly_sent = having(connection, database, [row.id for row in rows if row.recipients > 1])
    fates = ends(rows, target, partly_sent)
    email, over = database.tables.email, {"token": None, "due_at": None}
    for status, ids in fates.items():
        ending = update(email).where(among(database, ids))
        connection.execute(ending.values(status=status, finished_at=database.now(), **over))
        note(connection, ((status, email_id) for email_id in ids))
    return len(fates.get(target, ()))


def ends(
    rows: Iterable[Locked | Row[Any]], target: Status, partly_sent: Collection[int]
) -> dict[Status, list[int]]:
    """Return the ids of these emails by the status in which they end.

    An email with unresolved doubt ends `unknown` instead of as `target`. An email in `partly_sent`
    ends `sent`, because a recipient already has a copy.
    """
    found: dict[Status, list[int]] = defaultdict(list)
    for row in rows:
        end = Status.SENT if row.id in partly_sent else target
        found[Status.UNKNOWN if row.unknown_count else end].append(row.id)
    return dict(found)


def turn_recipients(
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
