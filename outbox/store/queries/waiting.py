"""Counts what has not ended, up to a limit: in milliseconds, however many emails there are.

All of it is read by one statement, which steps through the lanes in the index of due emails. So it
takes as long for five million finished or scheduled emails as for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import gt, le
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    and_,
    func,
    select,
    union_all,
)

from ...domain.delivery.status import Status
from ..backend import backend_of
from ..connection.database import Database
from ..operations import Comparison
from ..report_records import Backlog
from .standstill import MOST_COUNTED
from .sweep.lane_keys import marked, ways
from .sweep.tagged_rows import Findings, constant, finding, now

Statement = Select[*tuple[Any, ...]]

_ALL = 2**31 - 1

LATELY = 900.0
"""Seconds for which a failed email counts as failed lately."""

MOST_FAILED = 1000
"""The most of these that are looked at: it bounds the cost of each look at the health."""


def backlog(connection: Connection, database: Database) -> Backlog:
    """Return how many emails wait and are in flight, each number up to MOST_COUNTED."""
    return read(Findings(connection, database.built(_statement), marked(database, {})))


def due(connection: Connection, database: Database) -> int:
    """Return how many emails are due, without a limit. It reads the index of these emails alone."""
    found = Findings(connection, database.built(_due), marked(database, {}))
    return int(found["due"][0].emails)


def _due(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    some = waiting(database, ways(database).cte("waiting_way"), le, database.now(), _ALL)
    return union_all(now(database), counted("due", some))


def _statement(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(now(database), *terms(database, ways(database).cte("waiting_way")))


def terms(database: Database, way: CTE) -> Iterator[Statement]:
    """Yield the statements for what `read` takes. The ways are those in which emails wait."""
    current = database.now()
    yield finding("way", moment=way.c.due_at)
    yield counted("due", waiting(database, way, le, current, MOST_COUNTED))
    yield counted("scheduled", waiting(database, way, gt, current, MOST_COUNTED))
    for status in (Status.CLAIMED, Status.SENDING):
        yield counted(status, leased(database, status).limit(constant(MOST_COUNTED)))
    yield _attention(database)


def read(found: Findings) -> Backlog:
    """Return the backlog that these findings tell of."""
    number = {what: found[what][0].emails for what in ("due", "scheduled", "claimed", "sending")}
    attention = {row.name: row.emails for row in found["attention"]}
    return Backlog(
        **number,
        failed=attention.get(Status.FAILED, 0),
        unknown=attention.get(Status.UNKNOWN, 0),
        oldest_due_seconds=round(oldest(found), 3),
    )


def oldest(found: Findings) -> float:
    """Return for how many seconds the oldest due email has waited; 0 if none is due."""
    return max((0.0, *(found.age(row.moment) for row in found["way"])))


def counted(what: str, some: Statement) -> Statement:
    """Return the statement that counts the rows of another one, which has a limit."""
    return finding(what, emails=func.count()).select_from(some.subquery(f"some_{what}"))


def waiting(
    database: Database, way: CTE, compare: Comparison, moment: ColumnElement[Any], limit: int
) -> Statement:
    """Return the statement for up to so many emails of all ways whose due time compares so."""
    if (own := backend_of(database.dialect).waiting) is not None:
        some = own(database, way, compare, moment, limit)
    else:
        email = database.tables.email
        is_of_way = and_(email.c.priority == way.c.priority, email.c.lane == way.c.lane)
        one = select(constant(1).label("one"))
        some = one.select_from(way.join(email, is_of_way))
        some = some.where(compare(email.c.due_at, moment))
    return some.limit(constant(limit))


def first_waiting(database: Database, *columns: ColumnElement[Any], limit: int) -> Statement:
    """Return the statement for columns of up to so many emails that wait.

    They are the first of the index of due emails: by priority and lane, each by when it is due.
    """
    if (own := backend_of(database.dialect).first_waiting) is not None:
        return own(database, ways(database).subquery("next_way"), *columns).limit(limit)
    email = database.tables.email.c
    some = select(*columns).where(email.due_at.is_not(None))
    return some.order_by(email.priority, email.lane, email.due_at, email.id).limit(limit)


def leased(database: Database, status: Status) -> Statement:
    """Return the statement for the emails of claims that have this status.

    The slots and batches limit the claims.
    """
    email = database.tables.email.c
    return select(email.id).where(email.token.is_not(None), email.status == constant(status))


def failed_lately(database: Database) -> Select[tuple[int]]:
    """Return the statement for the ids of the newest emails that failed lately."""
    email = database.tables.email.c
    return (
        select(email.id)
        .where(email.attention_at > database.now(-LATELY))
        .where(email.attention_status == constant(Status.FAILED))
        .order_by(email.attention_at.desc(), email.id.desc())
        .limit(constant(MOST_FAILED))
    )


def _attention(database: Database) -> Statement:
    """Return the statement that counts by status what needs a person, among the last of them.

    It reads only the index. The emails lie far apart: to read 10,000 takes ten times as long.
    """
    email = database.tables.email.c
    last = (
        select(email.attention_status.label("status"))
        .where(email.attention_at.is_not(None))
        .order_by(email.attention_at.desc(), email.id.desc())
        .limit(constant(MOST_COUNTED))
        .subquery("last_of_a_person")
    )
    found = finding("attention", name=last.c.status, emails=func.count())
    return found.group_by(last.c.status)
