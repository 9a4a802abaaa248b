"""Finds emails that do not leave: due and not claimed, claimed and not sent, lost by a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    case,
    exists,
    func,
    select,
)

from ...domain.delivery.status import Status
from ..connection.database import Database
from ..due_times import first_due
from ..schema.clock import utc

MOST_COUNTED = 10_000
"""The most emails that are counted of a kind: a monitor asks often, and a backlog may be long."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What is claimed, and what does not move; of each kind at most MOST_COUNTED are counted."""

    claimed: int
    stuck: int
    """How many have been due or claimed for over the limit."""
    oldest_claimed: float
    """The longest time in seconds that a claimed email has waited; 0 if none is claimed. It shows
    that workers are given batches but start none."""


def oldest_due(connection: Connection, database: Database) -> float:
    """Return how many seconds the oldest due email has waited; 0 if no email is due.

    This is the one figure that shows every kind of standstill.
    """
    email = database.tables.email.c
    statement = select(func.min(email.due_at).label("since")).where(
        email.due_at.is_not(None), email.due_at <= database.now()
    )
    return _seconds_since(connection, database, statement)


def longest_overdue(connection: Connection, database: Database) -> float:
    """Return how many seconds ago the oldest lease of a claimed email ran out; 0 if none has.

    A sweep judges the emails of such a lease. Without sweeps they stay as they are.
    """
    lease, email = database.tables.lease.c, database.tables.email.c
    statement = select(func.min(lease.expires_at).label("since")).where(
        lease.expires_at <= database.now(), exists().where(email.token == lease.token)
    )
    return _seconds_since(connection, database, statement)


def due(connection: Connection, database: Database) -> int:
    """Return how many emails are due; at most MOST_COUNTED are counted."""
    email = database.tables.email.c
    statement = select(email.id).where(email.due_at.is_not(None), email.due_at <= database.now())
    return _count(connection, statement)


def taken(connection: Connection, database: Database, limit: float, oldest_due: float) -> Taken:
    """Return how many emails are claimed, and for how long they and the due ones have waited.

    `oldest_due` is for how many seconds the oldest due email has waited: if it is not late, none is
    counted in vain.
    """
    email = database.tables.email.c
    claimed = select(email.id).where(email.token.is_not(None))
    late = select(email.id).where(email.due_at.is_not(None), email.due_at < database.now(-limit))
    since = _claimed(database).subquery()
    stuck = select(since.c.since).where(since.c.since < database.now(-limit))
    found = connection.execute(  # in one round trip
        select(
            select(func.min(since.c.since, type_=email.created_at.type))
            .scalar_subquery()
            .label("since"),
            _number(claimed).label("claimed"),
            _number(stuck).label("stuck"),
            database.now().label("now"),
        )
    ).one()
    overdue = _count(connection, late) if oldest_due > limit else 0
    return Taken(claimed=found.claimed, stuck=found.stuck + overdue, oldest_claimed=_seconds(found))


def _claimed(database: Database) -> Select[Any]:
    """Return the statement for the moments since which claimed emails have waited.

    A claim does not keep when its emails were due. An email that was never tried was due at its
    first due time. For any other email, the time of the claim is good enough.
    """
    email, lease, attempt = (getattr(database.tables, n) for n in ("email", "lease", "attempt"))
    first = first_due(email)
    tried = exists().where(attempt.c.email_id == email.c.id)
    since: ColumnElement[Any] = case((tried, func.coalesce(lease.c.claimed_at, first)), else_=first)
    return (
        select(since.label("since"))
        .select_from(email.outerjoin(lease, lease.c.token == email.c.token))
        .where(email.c.token.is_not(None), email.c.status == Status.CLAIMED)
    )


def _count(connection: Connection, statement: Select[Any]) -> int:
    return connection.execute(select(_number(statement))).scalar_one()


def _number(statement: Select[Any]) -> ScalarSelect[int]:
    some = statement.limit(MOST_COUNTED).subquery()
    return select(func.count()).select_from(some).scalar_subquery()


def _seconds_since(connection: Connection, database: Database, oldest: Select[Any]) -> float:
    return _seconds(connection.execute(oldest.add_columns(database.now().label("now"))).one())


def _seconds(row: Row[Any]) -> float:
    """Return how many seconds ago `since` was; 0 if there is none."""
    if row.since is None:
        return 0.0
    # It began in the future if the clock was ahead then.
    return max(0.0, (utc(row.now) - utc(row.since)).total_seconds())
