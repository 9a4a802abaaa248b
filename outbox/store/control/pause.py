"""Pauses: a person stops everything or one priority, and paused emails are not claimed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, select

from ...domain.priority import Priority
from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..report_records import Pause
from ..schema.clock import utc

EVERYTHING = "all"


def scope_of(priority: Priority | None) -> str:
    """Return the scope's name in the table. None stands for everything."""
    return EVERYTHING if priority is None else priority.name.lower()


def pause(connection: Connection, database: Database, priority: Priority | None) -> bool:
    """Pause a priority, or everything; return False if it was already paused."""
    table = database.tables.pause
    scope = scope_of(priority)
    return insert_if_absent(connection, table, scope=scope, paused_at=database.now())


def resume(
    connection: Connection,
    database: Database,
    priority: Priority | None,
    since: datetime | None = None,
) -> bool:
    """Resume a priority, or everything; return False if it was not paused.

    With `since` only the pause that began at that moment is lifted.
    """
    table = database.tables.pause
    lifted = delete(table).where(table.c.scope == scope_of(priority))
    if since is not None:
        lifted = lifted.where(table.c.paused_at == since)
    return connection.execute(lifted).rowcount == 1


def paused(connection: Connection, database: Database) -> list[str]:
    """Return the scopes that are paused."""
    table = database.tables.pause
    return list(connection.execute(select(table.c.scope).order_by(table.c.scope)).scalars())


def pauses(connection: Connection, database: Database) -> tuple[Pause, ...]:
    """Return the pauses, by scope, with the moments at which they began."""
    table = database.tables.pause
    return tuple(
        Pause(scope=row.scope, paused_at=utc(row.paused_at))
        for row in connection.execute(select(table).order_by(table.c.scope))
    )
