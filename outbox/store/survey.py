"""What a sweep has to do, found out in one statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Exists,
    ScalarSelect,
    Select,
    case,
    exists,
    func,
    literal,
    select,
)

from ..domain.priority import Priority
from .database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The state of the outbox as a sweep sees it."""

    due: dict[Priority, int]  # counted up to the limit, paused priorities as 0
    in_flight: int  # leases that hold, whether their task has started or not
    urgent_in_flight: int
    overdue: bool  # a lease has run out
    expired: bool  # a waiting mail's time has run out
    closed: bool  # the breaker is open: nothing may be claimed
    half_open: bool  # the breaker waits for a probe


def survey(database: Database, server: str, *, limit: int) -> Survey:
    """Look at everything that a sweep decides by. Counting stops at `limit` a priority."""
    statement = survey_statement(database, server, limit)
    row = database.read(lambda connection: connection.execute(statement).one())
    return Survey(
        due={priority: getattr(row, f"due_{int(priority)}") for priority in Priority},
        in_flight=row.in_flight,
        urgent_in_flight=row.urgent_in_flight,
        overdue=bool(row.overdue),
        expired=bool(row.expired),
        closed=bool(row.closed),
        half_open=bool(row.half_open),
    )


def survey_statement(database: Database, server: str, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the one statement of a sweep that finds nothing to do."""
    tables = database.tables
    email, lease, breaker = tables.email.c, tables.lease, tables.breaker.c
    now = database.now()
    # A lease that has run out holds no slot: its worker is most likely dead.
    leases = select(func.count()).select_from(lease).where(lease.c.expires_at > now)
    ours = breaker.server == server
    return select(
        *(_due(database, priority, limit).label(f"due_{int(priority)}") for priority in Priority),
        leases.scalar_subquery().label("in_flight"),
        leases.where(lease.c.priority == int(Priority.URGENT))
        .scalar_subquery()
        .label("urgent_in_flight"),
        _found(exists().where(lease.c.expires_at <= now)).label("overdue"),
        _found(exists().where(email.due_at.is_not(None), email.expires_at <= now)).label("expired"),
        _found(exists().where(ours, breaker.retry_at > now)).label("closed"),
        _found(exists().where(ours, breaker.retry_at <= now)).label("half_open"),
    )


def _found(condition: Exists) -> ColumnElement[int]:
    """As a number: not every database has a boolean to select."""
    return case((condition, 1), else_=0)


def _due(database: Database, priority: Priority, limit: int) -> ScalarSelect[int]:
    email, pause = database.tables.email.c, database.tables.pause.c
    paused = exists().where(pause.scope.in_(["all", priority.name.lower()]))
    first = (
        select(literal(1))
        .where(email.priority == int(priority), email.due_at <= database.now(), ~paused)
        .limit(limit)
        .subquery(f"first_{int(priority)}")
    )
    return select(func.count()).select_from(first).scalar_subquery()
