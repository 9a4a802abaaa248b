"""The looks of a batch for more urgent email: how often, for whom, and what a slow one changes."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from outbox import Priority
from outbox.worker.batch.throttle import Throttle
from tests.integration.worker.batch.started import batch, statements
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.one_database("mariadb")


def test_a_batch_gives_way_to_urgent_email_where_no_slot_is_free(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop)
    now = 0.0
    shop.runtime.clock = lambda: now
    pace = Throttle(shop.runtime, made)
    assert not pace.must_yield()
    shop.enqueue(priority=Priority.URGENT)
    assert statements(shop, pace.must_yield) == 0, "it looked a moment ago"
    now = 1.0
    assert pace.must_yield()


def test_a_look_that_takes_long_is_made_less_often(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop)
    now = 0.0
    shop.runtime.clock = lambda: now
    shop.runtime.slots.share(1)  # as in a worker, where nothing is read for them
    pace = Throttle(shop.runtime, made)

    def slow(*_: object) -> None:
        nonlocal now
        now += 0.5

    now = 1.0
    event.listen(shop.engine, "before_cursor_execute", slow)
    assert not pace.must_yield()
    event.remove(shop.engine, "before_cursor_execute", slow)
    now += 4.4
    assert statements(shop, pace.must_yield) == 0
    now += 0.2
    assert statements(shop, pace.must_yield) == 1


def test_while_nothing_urgent_waits_the_batches_of_a_process_look_together(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop)
    now = 0.0
    shop.runtime.clock = lambda: now
    shop.runtime.slots.share(1)  # as in a worker, where nothing is read for them
    paces = [Throttle(shop.runtime, made) for _ in range(5)]
    for second in (1.0, 2.0):
        now = second
        assert statements(shop, paces[0].must_yield) == 1
        assert [statements(shop, pace.must_yield) for pace in paces] == [0] * 5
    now = 3.0
    assert [statements(shop, pace.must_yield) for pace in reversed(paces)] == [1, 0, 0, 0, 0]


def test_where_urgent_email_waits_each_batch_looks_for_itself(shops: Shops) -> None:
    """One that has given way to it is enough: the others must not do so by an older answer."""
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop)
    now = 0.0
    shop.runtime.clock = lambda: now
    first, second, third = (Throttle(shop.runtime, made) for _ in range(3))
    shop.enqueue(priority=Priority.URGENT)
    now = 1.0
    assert first.must_yield()
    assert second.must_yield()
    shop.runtime.slots.share(2)
    for urgent in shop.claim(priority=Priority.URGENT):
        assert shop.start(urgent.token)
    assert not third.must_yield()
    assert not first.must_yield(), "nothing waits any more, as the third one saw"


def test_a_look_that_fails_leaves_the_next_one_to_every_batch(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop)
    now = 0.0
    shop.runtime.clock = lambda: now
    first, second = Throttle(shop.runtime, made), Throttle(shop.runtime, made)
    now = 1.0

    def fail(*_: object) -> None:
        raise ValueError("boom")

    event.listen(shop.engine, "before_cursor_execute", fail)
    with pytest.raises(ValueError, match="boom"):
        first.must_yield()
    event.remove(shop.engine, "before_cursor_execute", fail)
    shop.enqueue(priority=Priority.URGENT)
    assert second.must_yield()


def test_urgent_email_gives_way_to_nobody(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SLOTS=1)
    made = batch(shop, priority=Priority.URGENT)
    shop.enqueue(priority=Priority.URGENT)
    assert not Throttle(shop.runtime, made).must_yield()
