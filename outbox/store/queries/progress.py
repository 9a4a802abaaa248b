"""Reads how far emails have come: their statuses, their doubt, and the batches that have them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, func, select

from ...domain.delivery.status import LEASED, Status
from ...domain.priority import Priority
from ..connection.database import Database
from ..due_times import is_held
from ..report_records import BatchDetails, Progress
from ..schema.clock import utc

SILENT_BELOW = 0.6
"""The part of a lease's term. A renewal is due when two thirds are left; below this it is late."""

_NOT_ENDED = (Status.PENDING, *sorted(LEASED))


def progress(
    connection: Connection, database: Database, *, lease_seconds: float, tag: str | None = None
) -> Progress:
    """Return how far the emails of one tag have come, or all. `lease_seconds` is a lease's term."""
    email = database.tables.email.c
    doubtful = and_(email.unknown_count > 0, email.status.in_(_NOT_ENDED))
    due = case((is_held(database.tables.email), None), else_=email.due_at)
    statement = select(
        email.status,
        func.count().label("emails"),
        func.sum(case((doubtful, 1), else_=0)).label("in_doubt"),
        func.min(due, type_=email.due_at.type).label("due_at"),
        database.now().label("now"),
    ).where(*_of_tag(database, tag))
    rows = connection.execute(statement.group_by(email.status)).all()
    found = {Status(row.status): int(row.emails) for row in rows}
    return Progress(
        statuses={status: found.get(status, 0) for status in Status},
        in_doubt=sum(int(row.in_doubt) for row in rows),
        next_due_seconds=min(
            (max(0.0, _seconds(row.due_at, row.now)) for row in rows if row.due_at), default=None
        ),
        batches=batches(connection, database, *_of_tag(database, tag), lease_seconds=lease_seconds),
    )


def _of_tag(database: Database, tag: str | None) -> list[ColumnElement[bool]]:
    return [] if tag is None else [database.tables.email.c.tag == tag]


def batches(
    connection: Connection, database: Database, *of: ColumnElement[bool], lease_seconds: float
) -> tuple[BatchDetails, ...]:
    """Return the batches in flight that have some of the emails for which all of this holds."""
    email, lease = database.tables.email.c, database.tables.lease
    theirs = (
        select(
            email.token,
            func.count().label("unfinished"),
            func.sum(case((email.status == Status.SENDING, 1), else_=0)).label("sending"),
        )
        .where(email.token.is_not(None), *of)
        .group_by(email.token)
        .subquery("theirs")
    )
    statement = (
        select(lease, theirs.c.unfinished, theirs.c.sending, database.now().label("now"))
        .join(theirs, theirs.c.token == lease.c.token)
        .order_by(lease.c.claimed_at, lease.c.token)
    )
    return tuple(_batch(row, lease_seconds) for row in connection.execute(statement))


def _batch(row: Row[Any], term: float) -> BatchDetails:
    left = _seconds(row.expires_at, row.now)
    return BatchDetails(
        priority=Priority(row.priority),
        lane=row.lane,
        emails=int(row.unfinished),
        sending=int(row.sending),
        worker=row.worker,
        server=row.server,
        claimed_at=utc(row.claimed_at),
        started_at=None if row.started_at is None else utc(row.started_at),
        lease_seconds=left,
        rescue_seconds=round(_until_rescue(row, left, term), 3),
        is_silent=row.started_at is not None and left < term * SILENT_BELOW,
        awaits_reply=bool(row.awaits_reply),
    )


def _until_rescue(row: Row[Any], left: float, term: float) -> float:
    """Return the seconds until a sweep may judge the batch, by the rule of `transitions/rescue`."""
    if row.started_at is None:
        return max(0.0, left)
    noted = None if row.suspected_at is None else _seconds(row.suspected_at, row.now)
    if noted is None or noted > 0.0:  # the next sweep notes that it ran out
        return max(0.0, left) + term
    return max(0.0, noted + term)


def _seconds(moment: datetime, now: datetime) -> float:
    """Return the seconds from now to a moment; negative if it has passed."""
    return round((utc(moment) - utc(now)).total_seconds(), 3)
