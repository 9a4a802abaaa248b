"""Counts what has not ended, up to a limit: in milliseconds, however many emails there are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, func, select

from ...domain.delivery.status import Status
from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey
from ..connection.database import Database
from ..records import Mark
from ..report_records import Backlog
from ..schema.clock import utc
from .standstill import MOST_COUNTED
from .sweep.backlog import count
from .sweep.lane_keys import marked, ways

WAYS_AT_ONCE = 200
"""The pairs of lane and priority in one statement. SQLite takes at most 500 terms."""


def backlog(connection: Connection, database: Database) -> Backlog:
    """Return how many emails wait and are in flight, each number up to MOST_COUNTED.

    It steps through the lanes in the index of due emails. So it takes as long for five million
    finished or scheduled emails as for none.
    """
    now = connection.execute(select(database.now())).scalar_one()
    waiting = {
        (row.lane, Priority(row.priority)): Mark(row.due_at, row.id)
        for row in connection.execute(ways(database), marked(database, {}))
    }
    due = {way: mark for way, mark in waiting.items() if utc(mark.due_at) <= utc(now)}
    oldest = min((utc(mark.due_at) for mark in due.values()), default=utc(now))
    waits = _need_person(connection, database)
    return Backlog(
        due=_waiting(connection, database, now, due, is_due=True),
        scheduled=_waiting(connection, database, now, waiting, is_due=False),
        claimed=_in_flight(connection, database, Status.CLAIMED),
        sending=_in_flight(connection, database, Status.SENDING),
        failed=waits.get(Status.FAILED, 0),
        unknown=waits.get(Status.UNKNOWN, 0),
        oldest_due_seconds=round((utc(now) - oldest).total_seconds(), 3),
    )


def _waiting(
    connection: Connection,
    database: Database,
    now: datetime,
    starts: Mapping[LaneKey, Mark],
    *,
    is_due: bool,
) -> int:
    """Return how many emails of these ways are due, or are due later."""
    total, left = 0, list(starts.items())
    while left and total < MOST_COUNTED:
        some, left = dict(left[:WAYS_AT_ONCE]), left[WAYS_AT_ONCE:]
        limits = dict.fromkeys(some, MOST_COUNTED - total)
        found = count(connection, database, now, some, limits, is_due=is_due)
        total += sum(one.emails for one in found.values())
    return min(total, MOST_COUNTED)


def _in_flight(connection: Connection, database: Database, status: Status) -> int:
    """Return how many emails of claims have this status. The slots and batches limit the claims."""
    email = database.tables.email.c
    some = select(email.id).where(email.token.is_not(None), email.status == status)
    counted = select(func.count()).select_from(some.limit(MOST_COUNTED).subquery())
    return connection.execute(counted).scalar_one()


def _need_person(connection: Connection, database: Database) -> dict[str, int]:
    """Return by status how many emails need a person, among the last of them."""
    email = database.tables.email.c
    last = (
        select(email.status)
        .where(email.attention_at.is_not(None))
        .order_by(email.attention_at.desc(), email.id.desc())
        .limit(MOST_COUNTED)
        .subquery()
    )
    counts = select(last.c.status, func.count()).group_by(last.c.status)
    return {status: emails for status, emails in connection.execute(counts)}  # noqa: C416
