"""pending, unknown → sent, pending: a late verdict resolves a doubt of the rescue.

The worker lost its lease, but nobody has claimed the email since. So its verdict is still about the
last copy that left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, select, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Verdict
from ..connection.database import Database
from ..connection.endings import Ending, note_endings
from ..connection.list_parts import among, parts
from ..records import EmailResult
from ..redaction import redact
from ..schema.clock import utc
from ..schema.column_types import WORKER_LENGTH
from ..schema.reply_columns import reply_values

_SETTLED = frozenset({RecipientStatus.SENT, RecipientStatus.FAILED})
_SLACK = 0.001
"""Seconds by which a database may round a moment."""


def is_unknown_by(database: Database, token: UUID) -> ColumnElement[bool]:
    """Return the condition: unknown since this claim was lost, and not claimed since."""
    email = database.tables.email.c
    return (email.unknown_token == token) & email.status.in_([Status.PENDING, Status.UNKNOWN])


def tells_of_a_copy(entry: EmailResult) -> bool:
    """Return whether the server accepted the email for at least one recipient."""
    if not entry.several:
        return entry.outcome.status is Status.SENT
    return any(status is RecipientStatus.SENT for _, status, _ in entry.outcome.recipients)


def record_late(connection: Connection, database: Database, entry: EmailResult) -> None:
    """Record for whom the server accepted the email, whose row is locked and in doubt.

    A recipient who was refused without an earlier doubt has no copy. The email stays in doubt for
    the recipients whose outcome is still unknown.
    """
    if entry.several:
        left = _settle_recipients(connection, database, entry)
        if RecipientStatus.UNKNOWN in left:
            return
        if RecipientStatus.PENDING in left:  # the doubt stopped these recipients: send to them now
            due = {"status": Status.PENDING, "due_at": database.now(), "finished_at": None}
            _clear(connection, database, entry, **due)
            return
    ended = {"status": Status.SENT, "due_at": None, "finished_at": database.now()}
    _clear(connection, database, entry, **ended)
    redact(connection, database, [entry.email_id] if entry.redact else [])
    note_endings(connection, [Ending(Status.SENT, entry.email_id)])


def _clear(connection: Connection, database: Database, entry: EmailResult, **values: Any) -> None:
    email = database.tables.email
    ours = update(email).where(email.c.id == entry.email_id)
    connection.execute(ours.values(unknown_count=0, unknown_token=None, **values))


def _settle_recipients(
    connection: Connection, database: Database, entry: EmailResult
) -> frozenset[RecipientStatus]:
    """Write the outcomes of recipients in doubt; return the statuses of all recipients."""
    table = database.tables.recipient
    for address, status, reply in entry.outcome.recipients:
        if status in _SETTLED:
            connection.execute(
                update(table)
                .where(
                    table.c.email_id == entry.email_id,
                    table.c.address == address,
                    table.c.status == RecipientStatus.UNKNOWN,
                )
                .values(status=status, **reply_values(reply))
            )
    found = select(table.c.status).where(table.c.email_id == entry.email_id)
    return frozenset(map(RecipientStatus, connection.execute(found).scalars()))


def not_written_yet(
    connection: Connection,
    database: Database,
    token: UUID,
    entries: Sequence[EmailResult],
    worker: str,
) -> list[EmailResult]:
    """Drop the results that are already in the table, where a commit's reply was lost.

    A result counts as written if the attempt log has it. A halt is not logged: it counts as written
    unless a rescue took its email. An email with several recipients may have another transaction of
    the same moment in the log. So each recipient that was accepted or refused must be settled so.
    """
    if not entries:
        return []
    attempt, ids = database.tables.attempt.c, {entry.email_id for entry in entries}
    logged = select(attempt.email_id, attempt.verdict, attempt.started_at).where(
        attempt.email_id.in_(sorted(ids)), attempt.worker == worker[:WORKER_LENGTH]
    )
    known: dict[tuple[int, str], list[float]] = defaultdict(list)
    for row in connection.execute(logged):
        known[row.email_id, row.verdict].append(utc(row.started_at).timestamp())
    email = database.tables.email.c
    taken = select(email.id).where(email.unknown_token == token, among(database, ids))
    rescued = frozenset(connection.execute(taken).scalars())

    written = _written(connection, database, entries)

    def is_written(entry: EmailResult) -> bool:
        if entry.verdict is Verdict.HALT:
            return entry.email_id not in rescued
        if entry.several and not _settled(entry) <= written:
            return False
        moments = known[entry.email_id, entry.verdict]
        return any(abs(moment - entry.started_at) < _SLACK for moment in moments)

    return [entry for entry in entries if not is_written(entry)]


def _written(
    connection: Connection, database: Database, entries: Sequence[EmailResult]
) -> frozenset[tuple[int, str, str]]:
    """Return (email id, address, status) of the settled recipients that the table has."""
    table = database.tables.recipient.c
    found: set[tuple[int, str, str]] = set()
    for ids in parts(sorted({entry.email_id for entry in entries if entry.several})):
        settled = table.email_id.in_(ids) & table.status.in_(sorted(_SETTLED))
        rows = connection.execute(
            select(table.email_id, table.address, table.status).where(settled)
        )
        found |= {(row.email_id, row.address, row.status) for row in rows}
    return frozenset(found)


def _settled(entry: EmailResult) -> frozenset[tuple[int, str, str]]:
    """Return (email id, address, status) of those whom the server accepted or refused for good."""
    return frozenset(
        (entry.email_id, address, status)
        for address, status, _ in entry.outcome.recipients
        if status in _SETTLED
    )
