"""Finds emails that do not leave: due and not claimed, claimed and not sent, lost by a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, case, exists, func, select

from ...domain.delivery.status import Status
from ..connection.database import Database
from ..due_times import first_due
from ..schema.clock import MOMENT, utc
from .sweep.tagged_rows import Findings, constant, finding

MOST_COUNTED = 10_000
"""The most emails that are counted of a kind: a monitor asks often, and a backlog may be long."""


@dataclass(frozen=True, kw_only=True)
class Standstill:
    """What does not move."""

    stuck: int
    """How many emails have been due or claimed for over the limit; of each at most MOST_COUNTED."""
    oldest_claimed: float
    """The longest time in seconds that a claimed email has waited; 0 if none is claimed. It shows
    that workers are given batches but start none."""
    lapsed: float
    """How many seconds ago the oldest lease of a claimed email ran out; 0 if none has. A sweep
    judges the emails of such a lease. Without sweeps they stay as they are."""


def oldest_due(connection: Connection, database: Database) -> float:
    """Return how many seconds the oldest due email has waited; 0 if no email is due.

    It does not show a standstill of emails that are claimed: see `Standstill.oldest_claimed`.
    """
    email = database.tables.email.c
    statement = select(func.min(email.due_at).label("since")).where(
        email.due_at.is_not(None), email.due_at <= database.now()
    )
    return _seconds_since(connection, database, statement)


def terms(database: Database, limit: float) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield the statements for what `read` takes, but for the emails that are due for too long."""
    lease, email = database.tables.lease.c, database.tables.email.c
    since = claimed(database).subquery("claimed_since").c.since
    is_late = case((since < database.now(-limit), constant(1)))
    yield finding("since", emails=func.count(is_late), moment=func.min(since, type_=MOMENT))
    yield finding("lapsed", moment=func.min(lease.expires_at, type_=MOMENT)).where(
        lease.expires_at <= database.now(), exists().where(email.token == lease.token)
    )


def read(found: Findings) -> Standstill:
    """Return the standstill that these findings tell of; `late` is of the emails that are due."""
    [since], [lapsed], [late] = found["since"], found["lapsed"], found["late"]
    return Standstill(
        stuck=min(since.emails, MOST_COUNTED) + late.emails,
        oldest_claimed=_age(found, since.moment),
        lapsed=_age(found, lapsed.moment),
    )


def _age(found: Findings, moment: datetime | None) -> float:
    """Return how many seconds ago a moment was; 0 if there is none."""
    # It began in the future if the clock was ahead then.
    return 0.0 if moment is None else max(0.0, found.age(moment))


def claimed(database: Database) -> Select[Any]:
    """Return the statement for the `priority` of claimed emails, and `since` when each has waited.

    A claim does not keep when its emails were due. An email that was never tried was due at its
    first due time. For any other email, the time of the claim is good enough.
    """
    email, lease, attempt = (getattr(database.tables, n) for n in ("email", "lease", "attempt"))
    first = first_due(email)
    tried = exists().where(attempt.c.email_id == email.c.id)
    since: ColumnElement[Any] = case((tried, func.coalesce(lease.c.claimed_at, first)), else_=first)
    return (
        select(email.c.priority, since.label("since"))
        .select_from(email.outerjoin(lease, lease.c.token == email.c.token))
        .where(email.c.token.is_not(None), email.c.status == Status.CLAIMED)
    )


def _seconds_since(connection: Connection, database: Database, oldest: Select[Any]) -> float:
    return _seconds(connection.execute(oldest.add_columns(database.now().label("now"))).one())


def _seconds(row: Row[Any]) -> float:
    """Return how many seconds ago `since` was; 0 if there is none."""
    if row.since is None:
        return 0.0
    # It began in the future if the clock was ahead then.
    return max(0.0, (utc(row.now) - utc(row.since)).total_seconds())
