"""Leases: of batches without emails, and how many hold a connection."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import Connection, func, insert, select

from outbox.store.connection.database import Database
from tests.support.shop.shop import LEASE, Shop


def leases(shop: Shop, count: int) -> list[UUID]:
    """Start so many batches; return their tokens in no order."""
    tokens = [uuid4() for _ in range(count)]
    now, end = shop.database.now(), shop.database.now(LEASE)
    rows = [{"token": token, "priority": 1} for token in tokens]
    with shop.engine.begin() as connection:
        made = insert(shop.tables.lease).values(claimed_at=now, started_at=now, expires_at=end)
        connection.execute(made, rows)
    return tokens


def in_flight(connection: Connection, database: Database) -> dict[str, int]:
    """Return how many batches hold a connection to each server that has a cap."""
    table = database.tables.lease.c
    statement = select(table.server, func.count()).where(table.server.is_not(None))
    rows = connection.execute(statement.group_by(table.server).order_by(table.server))
    return {name: count for name, count in rows}  # noqa: C416  (to mypy a row is not a pair)
