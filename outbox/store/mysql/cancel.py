"""pending, claimed → cancelled on MariaDB and MySQL: only the chosen rows are locked.

Under REPEATABLE READ each row that a statement reads stays locked until the caller's transaction
ends, with the gaps beside it. Then no other request can enqueue. A list of ids does not help: in a
small table the optimizer reads all rows, whatever index it is told to use. So the ids are a derived
table, which is read first, and each row is found by its key.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, text

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import FINISHED, Status, sources
from ..connection.database import Database
from ..connection.endings import Ending, note_endings
from ..end_emails import by_final_status

_EMAILS = """
JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$')) AS chosen
STRAIGHT_JOIN {email} AS email FORCE INDEX (PRIMARY) ON email.id = chosen.id
"""
_RECIPIENTS = """
JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$[0]', position INT PATH '$[1]')) AS chosen
STRAIGHT_JOIN {recipient} AS recipient FORCE INDEX (PRIMARY)
    ON recipient.email_id = chosen.id AND recipient.position = chosen.position
"""
_CONTENTS = """
JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$')) AS chosen
STRAIGHT_JOIN {content} AS content FORCE INDEX (PRIMARY) ON content.id = chosen.id
"""
_LOCK = """
SELECT email.id, email.unknown_count, email.recipients, email.redact, email.content_id
FROM {emails}
WHERE email.status IN (:first, :second) ORDER BY email.id FOR UPDATE
"""
_READ = "SELECT recipient.email_id, recipient.status FROM {recipients} FOR UPDATE"
_LEAVE_OUT = """
UPDATE {recipients} SET recipient.status = :failed, recipient.reply = 'withdrawn'
WHERE recipient.status = :pending
"""
_END = """
UPDATE {emails} SET email.status = :status, email.token = NULL, email.due_at = NULL,
    email.finished_at = utc_timestamp(6) + INTERVAL :offset SECOND
"""
_EMPTY = """
UPDATE {contents} SET content.size = 0, content.crc32 = 0, content.sha256 = NULL,
    content.key_id = NULL, content.subject = NULL, content.body = '',
    content.redacted_at = utc_timestamp(6) + INTERVAL :offset SECOND
"""
_STRIP = """
UPDATE {emails} SET email.headers = '', email.merge = NULL,
    email.redacted_at = utc_timestamp(6) + INTERVAL :offset SECOND
"""
"""What `redaction.redact` does, for emails that are locked already."""


def withdraw(connection: Connection, database: Database, ids: Sequence[int]) -> int:
    """Withdraw those of these emails that still wait; return how many are cancelled."""

    tables = database.tables
    emails = _EMAILS.format(email=database.name(tables.email))
    recipients = _RECIPIENTS.format(recipient=database.name(tables.recipient))
    contents = _CONTENTS.format(content=database.name(tables.content))

    def run(statement: str, chosen: Sequence[object], **values: object) -> CursorResult[Any]:
        named = text(statement.format(emails=emails, recipients=recipients, contents=contents))
        return connection.execute(named, values | {"chosen": json.dumps(chosen)})

    first, second = sources(Status.CANCELLED)
    locked = run(_LOCK, list(ids), first=first, second=second).all()
    # Lock the recipients while reading them: this transaction's snapshot of them may be old.
    keys = [
        (row.id, place) for row in locked if row.recipients > 1 for place in range(row.recipients)
    ]
    statuses = run(_READ, keys).all() if keys else ()
    partly_sent = {row.email_id for row in statuses if row.status == RecipientStatus.SENT}
    if keys:
        run(_LEAVE_OUT, keys, failed=RecipientStatus.FAILED, pending=RecipientStatus.PENDING)
    fates = by_final_status(locked, Status.CANCELLED, partly_sent)
    for status, chosen in fates.items():
        run(_END, chosen, status=status, offset=database.offset)
        bare = [row for row in locked if row.redact and row.id in chosen and status in FINISHED]
        if bare:
            run(_EMPTY, [row.content_id for row in bare], offset=database.offset)
            run(_STRIP, [row.id for row in bare], offset=database.offset)
        note_endings(connection, (Ending(status, i, Status.CANCELLED) for i in chosen))
    return len(fates.get(Status.CANCELLED, ()))
