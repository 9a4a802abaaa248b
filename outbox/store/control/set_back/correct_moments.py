"""Corrects what was written while the database's clock was ahead, once it has been set back.

A breaker that was opened or probed then would get no probe until its moments come. A lease of then
would hold its emails, its slot and its server's connection for as long, if its task or its worker
is lost. A worker that lives renews its lease anyway.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

from ...connection.database import Database
from ...connection.row_locks import locking
from ...schema.clock import utc
from .ahead import TERMS, is_breaker_ahead, is_lease_ahead


def correct_moments(database: Database, term: float) -> None:
    """Have breakers and leases from the future last from now on for as long as they would have.

    So no lease runs out before its worker has had its whole term to renew it. Rows that others have
    locked are left to the next sweep.
    """
    breaker, lease = database.tables.breaker, database.tables.lease

    def work(connection: Connection) -> None:
        for row in _locked(connection, database, breaker, is_breaker_ahead(database)):
            change = update(breaker).where(breaker.c.server == row.server)
            connection.execute(change.values(**_breaker_from_now(row)))
        for row in _locked(connection, database, lease, is_lease_ahead(database, term)):
            change = update(lease).where(lease.c.token == row.token)
            connection.execute(change.values(**_lease_from_now(row, term)))

    database.run(work)


def _locked(
    connection: Connection, database: Database, table: Table, which: ColumnElement[bool]
) -> list[Any]:
    found = select(table, database.now().label("now")).where(which).order_by(*table.primary_key)
    return list(connection.execute(locking(found, table, skip_locked=True)).all())


def _breaker_from_now(row: Any) -> dict[str, Any]:
    now, opened_at, retry_at = utc(row.now), utc(row.opened_at), utc(row.retry_at)
    seen_at = opened_at if row.seen_at is None else utc(row.seen_at)
    waits = retry_at - max(opened_at, seen_at)
    return {
        "opened_at": min(opened_at, now),
        "seen_at": min(seen_at, now),
        # Below 0 it was put off before the clock was ahead, or again since the clock was set back.
        "retry_at": retry_at if waits < timedelta() else now + waits,
    }


def _lease_from_now(row: Any, term: float) -> dict[str, Any]:
    now, claimed_at, expires_at = utc(row.now), utc(row.claimed_at), utc(row.expires_at)
    started_at = None if row.started_at is None else utc(row.started_at)
    lasts = expires_at - max(now, started_at or claimed_at)
    return {
        "claimed_at": min(claimed_at, now),
        "started_at": None if started_at is None else min(started_at, now),
        # Below 0 it was renewed since the clock was set back, or has run out.
        "expires_at": expires_at
        if lasts < timedelta()
        else now + min(lasts, timedelta(seconds=TERMS * term)),
    }
