"""Leases of batches without emails."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import insert

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
