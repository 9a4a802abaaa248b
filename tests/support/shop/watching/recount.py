"""Counts the attempt log anew, row by row, to compare with what was counted meanwhile."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from outbox.domain.figures.histogram import BOUNDS
from outbox.store.schema.tables import Tables

Counts = Counter[tuple[Any, ...]]
"""By minute, server, route, priority, verdict, code and bin."""


def recount(engine: sa.Engine, tables: Tables) -> Counts:
    """Return what the log says, of the emails that are still in the table."""
    return Counter(log(engine, tables).values())


def log(engine: sa.Engine, tables: Tables) -> dict[int, tuple[Any, ...]]:
    """Return by which key each row of the log must be counted."""
    email, attempt = tables.email, tables.attempt
    statement = sa.select(
        attempt, email.c.lane, email.c.priority, email.c.send_at, email.c.created_at
    ).join_from(attempt, email, email.c.id == attempt.c.email_id)
    with engine.connect() as connection:
        return {row.id: _key(row) for row in connection.execute(statement)}


def _key(row: sa.Row[Any]) -> tuple[Any, ...]:
    finished, due = _utc(row.finished_at), _utc(row.send_at or row.created_at)
    seconds = (finished - due).total_seconds()
    number = sum(bound < seconds for bound in BOUNDS) if row.verdict == "sent" else -1
    minute = int(finished.timestamp()) // 60
    route = row.lane.split("@")[0]
    return minute, row.server, route, row.priority, row.verdict, row.code, number


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def counted(engine: sa.Engine, tables: Tables, *, span: int = 60) -> Counts:
    """Return what was counted: the sums of a span, and the tallies that are not summed up yet."""
    stat, tally = tables.stat, tables.tally
    found: Counts = Counter()
    with engine.connect() as connection:
        for row in connection.execute(sa.select(stat).where(stat.c.span == span)):
            found[tuple(row)[1:-1]] += row.attempts
        for row in connection.execute(sa.select(tally)):
            _, attempts, minute, *rest = row
            found[(minute - minute % (span // 60) if span else 0, *rest)] += attempts
    return Counter({key: attempts for key, attempts in found.items() if attempts})
