"""There are as many slots as the living workers have, and a sweep hardly ever asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.fleet import DEFAULT_SLOTS
from outbox.store.records import Claim
from outbox.worker.process.slots import KNOWN
from outbox.worker.sweep import sweep
from tests.support.shop.fleet import row, written
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database

SWEEPS = 20


@contextmanager
def statements(shop: Shop) -> Iterator[list[str]]:
    """Note the statements that ask for the workers."""
    found: list[str] = []

    def note(*given: Any) -> None:
        if "outbox_worker" in given[2]:
            found.append(given[2])

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(shop.engine, "before_cursor_execute", note)


def batches(shop: Shop) -> int:
    """Sweep once; return how many batches were handed out."""
    claims: list[Claim] = []
    sweep(shop.runtime, claims.append)
    return len(claims)


def filled(shops: Shops, **config: Any) -> Shop:
    """Return a shop in which more batches are due than it has slots, each of one email."""
    shop = shops.open(OUTBOX_BATCH=1, OUTBOX_WINDOW=1, **config)
    for number in range(2 * DEFAULT_SLOTS):
        shop.enqueue(f"r{number}@x.example")
    return shop


def test_without_a_living_worker_there_are_four_slots_or_those_of_the_setting(
    shops: Shops,
) -> None:
    assert batches(filled(shops)) == DEFAULT_SLOTS
    assert shops.open(OUTBOX_SLOTS=7).runtime.slots() == 7


def test_the_living_workers_slots_are_used_and_the_setting_bounds_them(shops: Shops) -> None:
    shop = filled(shops)
    written(shop, row("a", slots=2))
    written(shop, row("b", slots=3))
    assert batches(shop) == 5
    assert shops.open(OUTBOX_SLOTS=3).runtime.slots() == 3


def test_an_idle_sweep_asks_once_in_five_seconds(shops: Shops) -> None:
    shop, now = shops.open(), 1000.0
    shop.runtime.clock = lambda: now
    with statements(shop) as asked:
        for _ in range(SWEEPS):
            batches(shop)
        assert len(asked) == 1
        now += KNOWN
        written(shop, row("a", slots=9))
        assert shop.runtime.slots() == 9


def test_in_a_worker_a_sweep_never_asks(shops: Shops) -> None:
    shop = shops.open()
    shop.runtime.slots.share(2)
    with statements(shop) as asked:
        for _ in range(SWEEPS):
            batches(shop)
        assert asked == []
    shop.runtime.slots.tell(6)
    assert shop.runtime.slots() == 6


def test_a_table_that_cannot_be_read_stops_no_sweep(shops: Shops) -> None:
    shop = filled(shops)
    shop.tables.worker.drop(shop.engine)
    try:
        assert batches(shop) == DEFAULT_SLOTS
    finally:
        shop.tables.worker.create(shop.engine)
