"""pending, unknown → sent: what a verdict says of a doubt that the rescue has declared meanwhile.

The worker's lease was lost, and nobody has claimed the email since: so what it knows is still the
truth of the last copy that left.
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
from ..connection.endings import note
from ..connection.list_parts import parts
from ..connection.row_locks import among
from ..records import EmailResult
from ..reply_columns import reply_values
from ..schema.clock import utc
from ..schema.column_types import WORKER_LENGTH

_SETTLED = frozenset({RecipientStatus.SENT, RecipientStatus.FAILED})
_SLACK = 0.001
"""Seconds that a moment may have lost on its way through a database."""


def is_unknown_by(database: Database, token: UUID) -> ColumnElement[bool]:
    """Its end is unknown by the loss of this claim, and nobody has claimed it since."""
    email = database.tables.email.c
    return (email.unknown_token == token) & email.status.in_([Status.PENDING, Status.UNKNOWN])


def tells_of_a_copy(entry: EmailResult) -> bool:
    """Whether the server took the email, for one recipient at least."""
    if not entry.several:
        return entry.outcome.status is Status.SENT
    return any(status is RecipientStatus.SENT for _, status, _ in entry.outcome.recipients)


def resolve(connection: Connection, database: Database, entry: EmailResult) -> None:
    """Write down whom the server took the email for; the row is locked and in doubt.

    Who was refused without an earlier doubt has no copy either. The email stays in doubt for the
    recipients of whom nothing is known yet.
    """
    if entry.several:
        left = _settle_recipients(connection, database, entry)
        if RecipientStatus.UNKNOWN in left:
            return
        if RecipientStatus.PENDING in left:  # the doubt of others had stopped it: it goes on
            due = {"status": Status.PENDING, "due_at": database.now(), "finished_at": None}
            _clear(connection, database, entry, **due)
            return
    ended = {"status": Status.SENT, "due_at": None, "finished_at": database.now()}
    _clear(connection, database, entry, **ended)
    note(connection, [(Status.SENT, entry.email_id)])


def _clear(connection: Connection, database: Database, entry: EmailResult, **values: Any) -> None:
    email = database.tables.email
    ours = update(email).where(email.c.id == entry.email_id)
    connection.execute(ours.values(unknown_count=0, unknown_token=None, **values))


def _settle_recipients(
    connection: Connection, database: Database, entry: EmailResult
) -> frozenset[RecipientStatus]:
    """Write the outcomes of those in doubt; return what all recipients have come to."""
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
    """Drop the results that are in the table: a commit whose reply was lost is made again.

    The log tells. A halt is in no log: of its email it is only known whether a rescue took it. Of
    an email with several recipients the log may have another transaction of the same moment: so
    whom the server took it for must stand in the table as sent, too.
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

    reached = _reached(connection, database, entries)

    def is_written(entry: EmailResult) -> bool:
        if entry.verdict is Verdict.HALT:
            return entry.email_id not in rescued
        if entry.several and not _taken(entry) <= reached:
            return False
        moments = known[entry.email_id, entry.verdict]
        return any(abs(moment - entry.started_at) < _SLACK for moment in moments)

    return [entry for entry in entries if not is_written(entry)]


def _reached(
    connection: Connection, database: Database, entries: Sequence[EmailResult]
) -> frozenset[tuple[int, str]]:
    """Return who stands as sent of the emails with several recipients: email and address."""
    table = database.tables.recipient.c
    found: set[tuple[int, str]] = set()
    for ids in parts(sorted({entry.email_id for entry in entries if entry.several})):
        sent = table.email_id.in_(ids) & (table.status == RecipientStatus.SENT)
        rows = connection.execute(select(table.email_id, table.address).where(sent))
        found |= {(row.email_id, row.address) for row in rows}
    return frozenset(found)


def _taken(entry: EmailResult) -> frozenset[tuple[int, str]]:
    """Return whom the server took this email for: email and address."""
    return frozenset(
        (entry.email_id, address)
        for address, status, _ in entry.outcome.recipients
        if status is RecipientStatus.SENT
    )
