"""A rate that somebody has raised: what was sent at the old one closes no lane for days."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.header.address import MAX_RECIPIENTS
from outbox.domain.scheduling.token_bucket import SLACK, Rate
from outbox.store.control.rate_limits import seconds_until_open, take
from outbox.worker.sweep import sweep
from tests.integration.store.queries.test_lanes import swept
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import server

pytestmark = pytest.mark.each_database

DAY = 86_400.0
SLOW, FAST = Rate(10, 86_400), Rate(1000, 60)
LEAST = MAX_RECIPIENTS * FAST.interval
"""Seconds for which one email may close a bucket of the fast rate: ten minutes."""

SOON = 20.0  # seconds that a test may take on a busy machine

RATES: dict[str, dict[str, Any]] = {
    "all": {"OUTBOX_RATE": "1000/min"},
    "domain:readers.example": {"OUTBOX_DOMAIN_RATES": {"readers.example": "1000/min"}},
    "server:a": {"OUTBOX_SERVERS": [server("a", 25, rate="1000/min")]},
}


def closed(shop: Shop, bucket: str) -> float:
    """Return the seconds for which a bucket is still closed."""
    return seconds_until_open(shop.database, [bucket])[bucket]


@pytest.mark.parametrize("bucket", RATES)
@pytest.mark.matrix
def test_it_closes_its_bucket_for_no_longer_than_one_take_at_the_new_rate(
    bucket: str, shops: Shops
) -> None:
    shop = shops.open(**RATES[bucket])
    take(shop.database, {bucket: (SLOW, 40)})
    shop.enqueue("a@readers.example")
    asked: list[float] = []
    assert sweep(shop.runtime, lambda _: None, asked.append) == 0
    assert all(seconds <= LEAST for seconds in asked)
    assert LEAST - SOON < closed(shop, bucket) <= LEAST
    shop.later(LEAST / 2)
    assert swept(shop) == []
    assert LEAST / 2 - SOON < closed(shop, bucket) <= LEAST / 2, "it counts from the last take"
    shop.later(LEAST / 2)
    assert sum(claim.emails for claim in swept(shop)) == 1
    assert take(shop.database, {bucket: (FAST, 1)}) == 0.0


def test_where_that_is_over_its_bucket_is_open_at_once(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="1000/min")
    take(shop.database, {"all": (SLOW, 40)})
    shop.later(LEAST)
    shop.enqueue("a@readers.example")
    assert sum(claim.emails for claim in swept(shop)) == 1


def test_what_may_have_been_taken_at_this_rate_is_still_paid_off(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="1000/min")
    take(shop.database, {"all": (FAST, MAX_RECIPIENTS)})
    before = shop.rows(shop.tables.bucket)
    assert swept(shop) == []
    assert shop.rows(shop.tables.bucket) == before


def test_a_process_that_still_has_the_slow_rate_shortens_nothing(shops: Shops) -> None:
    shop = shops.open(OUTBOX_RATE="10/day")
    take(shop.database, {"all": (SLOW, 40)})
    assert swept(shop) == []
    assert 4 * DAY - SLACK - SOON < closed(shop, "all") <= 4 * DAY
