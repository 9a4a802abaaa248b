"""Ends emails that will not be sent any more, with a true status for each; or takes an end back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, update

from ..domain.delivery.status import Status, end_status
from .connection.database import Database
from .connection.endings import Ending, note_endings
from .connection.list_parts import among, is_among
from .connection.row_locks import Locked
from .recipients import having
from .redaction import redact_ended


def end_emails(
    connection: Connection,
    database: Database,
    rows: Sequence[Locked],
    target: Status,
    *,
    cause: str = "",
) -> int:
    """End these locked emails as `target`, or as sent or unknown where `by_final_status` says so.

    An email that asks for it loses its body. Returns how many ended as `target`. The `cause` is for
    the log; by default it is the target.
    """
    partly_sent = having(connection, database, [row.id for row in rows if row.recipients > 1])
    fates = by_final_status(rows, target, partly_sent)
    email, over = database.tables.email, {"token": None, "due_at": None}
    by_id = {row.id: row for row in rows}
    for status, ids in fates.items():
        ending = update(email).where(among(database, ids))
        connection.execute(ending.values(status=status, finished_at=database.now(), **over))
        redact_ended(connection, database, (by_id[email_id] for email_id in ids), status)
        note_endings(connection, (Ending(status, i, cause or target) for i in ids))
    return len(fates.get(target, ()))


def by_final_status(
    rows: Iterable[Locked | Row[Any]], target: Status, partly_sent: Collection[int]
) -> dict[Status, list[int]]:
    """Return the ids of these emails by the status in which they end; see `end_status`.

    A recipient of each email in `partly_sent` has a copy.
    """
    found: dict[Status, list[int]] = defaultdict(list)
    for row in rows:
        in_doubt, has_copy = bool(row.unknown_count), row.id in partly_sent
        found[end_status(target, in_doubt=in_doubt, has_copy=has_copy)].append(row.id)
    return dict(found)


def forget_end(connection: Connection, database: Database, ids: Collection[int]) -> None:
    """Tell the purge that these emails may soon end anew, and in a status of another age."""
    note = database.tables.straggler
    changed = update(note).where(is_among(database, note.c.email_id, ids))
    connection.execute(changed.values(status=Status.PENDING))
