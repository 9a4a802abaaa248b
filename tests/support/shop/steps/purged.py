"""Purges of a shop, until nothing is left to be removed."""

from __future__ import annotations

from outbox.domain.config.retention import Retention
from outbox.store.retention.purge import purge
from tests.support.shop.shop import Shop


def removed(shop: Shop, older_than: float | Retention = 0.0) -> int:
    """Purge; return how many emails were removed. A number of seconds holds for every status."""
    ages = older_than if isinstance(older_than, Retention) else Retention.of_all(older_than)
    return sum(chunk.emails for chunk in purge(shop.database, ages))


def bared(shop: Shop, older_than: float) -> int:
    """Purge bodies only; return how many were removed."""
    never = Retention.of_all(1e9)
    return sum(chunk.bodies for chunk in purge(shop.database, never, body_retention=older_than))
