"""How an email ends that is not to be sent any more: the status never lies."""

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
from .connection.row_locks import Locked, among


def expired(database: Database) -> ColumnElement[bool]:
    """The email waits and its time has run out; in the words of the partial index."""
    email = database.tables.email.c
    waits = email.finished_at.is_(None) & email.token.is_(None)
    return waits & email.expires_at.is_not(None) & (email.expires_at <= database.now())


def first_due(email: Table) -> ColumnElement[datetime]:
    """When an email was due first: given back, it keeps its place before what came after it."""
    return func.coalesce(email.c.send_at, email.c.created_at)


def end(connection: Connection, database: Database, rows: Sequence[Locked], target: Status) -> int:
    """End these locked emails as `target`, or as what the truth about each is.

    Returns how many ended as `target`. Whoever holds an email's row holds its recipients too, so a
    plain read tells what has become of them.
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
    """Return how each of these emails ends, by the ends that occur.

    One with unresolved doubt ends `unknown` instead, and one of which a recipient has already got
    a copy ends `sent`.
    """
    found: dict[Status, list[int]] = defaultdict(list)
    for row in rows:
        end = Status.SENT if row.id in partly_sent else target
        found[Status.UNKNOWN if row.unknown_count else end].append(row.id)
    return dict(found)


def having(
    connection: Connection,
    database: Database,
    ids: Collection[int],
    status: RecipientStatus = RecipientStatus.SENT,
) -> frozenset[int]:
    """Return those of these emails that have a recipient of this status."""
    if not ids:
        return frozenset()
    recipient = database.tables.recipient.c
    found = select(recipient.email_id).where(
        recipient.email_id.in_(sorted(ids)), recipient.status == status
    )
    return frozenset(connection.execute(found).scalars())
