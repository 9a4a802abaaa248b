"""Corrects what was written while the database's clock was ahead, once it has been set back.

A breaker that was opened or probed then would get no probe until its moments come.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select, update

from ..connection.database import Database
from ..schema.clock import utc

APART = 1.0
"""Seconds by which a moment that was noted as now may lie in the future before that counts. It
happens if another host takes over as the database."""


def is_breaker_ahead(database: Database) -> ColumnElement[bool]:
    """Return the condition: the breaker was opened, probed or noted in the future."""
    breaker, soon = database.tables.breaker.c, database.now(APART)
    return or_(breaker.opened_at > soon, breaker.seen_at > soon)


def set_right(database: Database) -> None:
    """Have each breaker from the future wait from now on for as long as it was to wait then.

    Rows that others have locked are left to the next sweep.
    """
    table = database.tables.breaker

    def work(connection: Connection) -> None:
        ahead = select(table, database.now().label("now")).where(is_breaker_ahead(database))
        ordered = ahead.order_by(table.c.server).with_for_update(skip_locked=True)
        for row in connection.execute(ordered).all():
            change = update(table).where(table.c.server == row.server)
            connection.execute(change.values(**_counted_from_now(row)))

    database.run(work)


def _counted_from_now(row: Any) -> dict[str, Any]:
    now, opened_at, retry_at = utc(row.now), utc(row.opened_at), utc(row.retry_at)
    seen_at = opened_at if row.seen_at is None else utc(row.seen_at)
    waits = retry_at - max(opened_at, seen_at)
    return {
        "opened_at": min(opened_at, now),
        "seen_at": min(seen_at, now),
        # Below 0 it was put off before the clock was ahead, or again since the clock was set back.
        "retry_at": retry_at if waits < timedelta() else now + waits,
    }
