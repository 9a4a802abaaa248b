"""Reads what the commands and pages show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, case, func, select

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import FINISHED, Status
from ...domain.priority import Priority
from ...domain.search.subject import read_subject
from ...domain.traceparent import TraceParent
from ..connection.database import Database
from ..connection.list_parts import among
from ..control.counter import UNKNOWN
from ..control.counter import read as read_counters
from ..control.pause import EVERYTHING, paused
from ..control.rate_limits import rate_limited
from ..encryption.cipher import MissingKey
from ..encryption.parts import Content, in_clear
from ..report_records import (
    AttemptDetails,
    EmailDetails,
    RateLimited,
    RecipientDetails,
    Stats,
)
from ..schema.clock import utc
from .server_status import server_statuses
from .standstill import oldest_due


def counts(connection: Connection, database: Database, tag: str | None = None) -> dict[Status, int]:
    """Return the number of emails by status, of one tag or of all. Zeros are left out."""
    email = database.tables.email.c
    statement = select(email.status, func.count()).group_by(email.status)
    if tag is not None:
        statement = statement.where(email.tag == tag)
    return {Status(status): count for status, count in connection.execute(statement)}


def statuses(connection: Connection, database: Database, ids: Collection[int]) -> dict[int, Status]:
    """Return the statuses of these emails by id, without those that do not exist."""
    email = database.tables.email.c
    found = select(email.id, email.status).where(among(database, ids))
    return {row.id: Status(row.status) for row in connection.execute(found)}


def stats(connection: Connection, database: Database, servers: Sequence[str] = ()) -> Stats:
    """Return the outbox's figures, with the statuses of these servers."""
    email, lease = database.tables.email.c, database.tables.lease
    found = counts(connection, database)
    due = (
        select(email.priority, email.lane, func.count().label("emails"))
        .where(email.due_at.is_not(None), email.due_at <= database.now())
        .group_by(email.priority, email.lane)
    )
    waiting, lanes = Counter[int](), Counter[str]()
    for row in connection.execute(due):
        waiting[row.priority] += row.emails
        lanes[row.lane] += row.emails
    in_flight = connection.execute(select(func.count()).select_from(lease)).scalar_one()
    scopes = paused(connection, database)
    return Stats(
        statuses={status: found.get(status, 0) for status in Status},
        due={priority: waiting[priority] for priority in Priority},
        lanes=dict(sorted(lanes.items())),
        rate_limited=tuple(RateLimited(**one) for one in rate_limited(connection, database)),
        oldest_due_seconds=round(oldest_due(connection, database), 3),
        batches_in_flight=in_flight,
        all_paused=EVERYTHING in scopes,
        paused=frozenset(Priority.of(scope) for scope in scopes if scope != EVERYTHING),
        counters=_counters(connection, database),
        servers=server_statuses(connection, database, servers),
    )


def _counters(connection: Connection, database: Database) -> dict[str, int]:
    """Return the counters under the names that people see."""
    found = read_counters(connection, database)
    if UNKNOWN in found:  # a status has this name, too: that many emails have it now
        found["came_into_doubt"] = found.pop(UNKNOWN)
    return dict(sorted(found.items()))


def detail(connection: Connection, database: Database, email_id: int) -> EmailDetails | None:
    """Return one email with its recipients and attempts, or None."""
    email = database.tables.email
    row = connection.execute(select(email).where(email.c.id == email_id)).one_or_none()
    if row is None:
        return None
    return EmailDetails(
        **summary(row),
        subject=_subject(connection, database, row),
        message_id=row.message_id,
        envelope_from=row.sender or "<>",
        size=row.size,
        crashes=row.crashes,
        unknown_count=row.unknown_count,
        recipient_list=_recipients(connection, database, row),
        attempt_list=_attempts(connection, database, email_id),
        redacted_at=_moment(row.redacted_at),
        trace_id=_trace(row.traceparent),
    )


_LISTED = ("id", "recipient", "recipients", "attempts", "tag", "key")
_TIMES = ("created_at", "due_at", "send_at", "expires_at", "finished_at")


def summary(row: Row[Any]) -> dict[str, Any]:
    """Return the values of an `EmailSummary` from an email's row."""
    return {
        "status": Status(row.status),
        "priority": Priority(row.priority),
        **{name: getattr(row, name) for name in _LISTED},
        **{name: _moment(getattr(row, name)) for name in _TIMES},
    }


def _trace(traceparent: str | None) -> str | None:
    found = TraceParent.parse(traceparent)
    return None if found is None else found.trace


def _moment(moment: datetime | None) -> datetime | None:
    return None if moment is None else utc(moment)


def _subject(connection: Connection, database: Database, email: Row[Any]) -> str:
    """Return an email's subject; in its place what is wrong, if the email cannot be decrypted."""
    if email.redacted_at is not None:
        return ""  # it went with the body
    content = database.tables.content.c
    # The header block has the subject, and a body may be large. But a body is decrypted, and a
    # template is filled, only as a whole.
    start: ColumnElement[Any] = content.body
    if email.merge is None:
        head = func.substr(content.body, 1, 16_384, type_=content.body.type)
        start = case((content.key_id.is_(None), head), else_=start)
    found = connection.execute(
        select(start, content.key_id).where(content.id == email.content_id)
    ).one_or_none()
    if found is None:
        return ""
    try:
        return read_subject(in_clear(database.cipher, email, Content(*found))) or ""
    except MissingKey as lacking:
        return f"(encrypted with the key {lacking.key_id}, which is missing)"
    except ValueError:
        return "(damaged)"


def _recipients(
    connection: Connection, database: Database, email: Row[Any]
) -> tuple[RecipientDetails, ...]:
    if email.recipients == 1:
        return (RecipientDetails(address=email.recipient, status=Status(email.status)),)
    table = database.tables.recipient
    statement = select(table).where(table.c.email_id == email.id).order_by(table.c.position)
    return tuple(
        RecipientDetails(
            address=row.address,
            status=_outcome(row.status, Status(email.status)),
            code=row.code,
            enhanced=row.enhanced,
            reply=row.reply,
        )
        for row in connection.execute(statement)
    )


def _outcome(recipient: str, email: Status) -> Status | Literal["unsent"]:
    """Return a recipient's status. In a finished email a waiting recipient gets the email's end."""
    if recipient != RecipientStatus.PENDING or email not in FINISHED:
        return Status(recipient)
    return "unsent" if email is Status.SENT else email


def _attempts(
    connection: Connection, database: Database, email_id: int
) -> tuple[AttemptDetails, ...]:
    table = database.tables.attempt
    statement = select(table).where(table.c.email_id == email_id).order_by(table.c.id)
    return tuple(
        AttemptDetails(
            started_at=utc(row.started_at),
            finished_at=utc(row.finished_at),
            verdict=row.verdict,
            phase=row.phase,
            code=row.code,
            enhanced=row.enhanced,
            reply=row.reply,
            worker=row.worker,
            server=row.server,
        )
        for row in connection.execute(statement)
    )
