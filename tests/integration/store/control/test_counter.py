"""Counters that many processes count up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from outbox.store.control.counter import bump
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


def test_counters_lose_no_count_when_many_count_at_once(shop: Shop) -> None:
    def count(_: int) -> None:
        shop.database.run(lambda c: bump(c, shop.database, "odd", 2))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(20)))
    assert shop.counter("odd") == 40
    assert shop.counter("even") == 0
