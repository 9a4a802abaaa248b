"""Urgent email between the windows of a batch, a pause, a wish to stop: nothing is lost by it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from outbox import Priority
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.control import circuit_breaker, pause
from outbox.store.control.rate_limits import take
from outbox.store.queries.sweep import preemption
from outbox.worker.process import shutdown
from outbox.worker.together.calm import ASK_EVERY
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, server, standing, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("sqlite")

SENT = ("sent", 1, 0, 0)
UNTOUCHED = ("pending", 0, 0, 0)
WINDOW = 5


def windowed(shops: Shops, catcher: Catcher, **config: object) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=WINDOW, **config)


def during_a_batch(shop: Shop, catcher: Catcher, happens: object) -> Motion:
    """Let something happen while the first email of 20 is sent; run that batch to its end."""
    ticks = count()
    shop.runtime.clock = lambda: next(ticks) / 100  # a look each tenth of a second, in no time
    write(shop, 20, priority=Priority.BULK)
    motion = Motion(shop=shop)
    motion.sweep()
    gate = catcher.hold_at("reply")
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(motion.work)
        wait_until(lambda: gate.reached == 1, 30, "the first email")
        assert callable(happens)
        happens()
        gate.open()
        assert task.result(30)
    return motion


def test_a_bulk_batch_gives_way_to_urgent_email_and_goes_on_after_it(
    shops: Shops, catcher: Catcher
) -> None:
    shop = windowed(shops, catcher, OUTBOX_SLOTS=1)
    motion = during_a_batch(
        shop, catcher, lambda: shop.enqueue("u@x.example", priority=Priority.URGENT)
    )
    assert standing(shop) == {SENT: WINDOW, UNTOUCHED: 20 - WINDOW + 1}
    motion.beat()
    assert standing(shop) == {SENT: 21}
    order = [mail.recipients[0][0] for mail in catcher.emails]
    assert order == ["r"] * WINDOW + ["u"] + ["r"] * (20 - WINDOW)
    assert set(catcher.copies().values()) == {1}


def test_a_free_slot_lets_the_bulk_batch_go_on(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        preemption, "_UNCLAIMED", 60.0
    )  # or else somebody should have claimed it by now
    shop = windowed(shops, catcher, OUTBOX_SLOTS=1)

    def a_worker_more() -> None:
        monkeypatch.setattr(shop.runtime, "slots", lambda: 2)
        shop.enqueue("u@x.example", priority=Priority.URGENT)

    during_a_batch(shop, catcher, a_worker_more)
    assert standing(shop) == {SENT: 20, UNTOUCHED: 1}


@pytest.mark.long
def test_a_bulk_batch_gives_way_to_normal_email_where_bulk_has_every_slot(
    shops: Shops, catcher: Catcher
) -> None:
    shop = windowed(shops, catcher, OUTBOX_SLOTS=1)
    motion = during_a_batch(shop, catcher, lambda: shop.enqueue("n@x.example"))
    assert standing(shop) == {SENT: WINDOW, UNTOUCHED: 20 - WINDOW + 1}
    motion.beat()
    assert standing(shop) == {SENT: 21}
    order = [mail.recipients[0][0] for mail in catcher.emails]
    assert order == ["r"] * WINDOW + ["n"] + ["r"] * (20 - WINDOW)


def test_a_pause_lets_the_batch_end_and_nothing_follows_until_it_is_resumed(
    shops: Shops, catcher: Catcher
) -> None:
    shop = windowed(shops, catcher, OUTBOX_SLOTS=1)

    def paused() -> None:
        shop.database.run(lambda c: pause.pause(c, shop.database, Priority.BULK))
        write(shop, 5, priority=Priority.BULK)

    motion = during_a_batch(shop, catcher, paused)
    assert standing(shop) == {SENT: 20, UNTOUCHED: 5}
    assert motion.beat() == 0
    shop.database.run(lambda c: pause.resume(c, shop.database, Priority.BULK))
    motion.beat()
    assert standing(shop) == {SENT: 25}


def test_a_worker_that_is_to_stop_ends_its_window_and_gives_the_rest_back(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = windowed(shops, catcher, OUTBOX_SLOTS=1)
    flag = bytearray(1)
    monkeypatch.setattr(shutdown, "_flag", flag)
    motion = during_a_batch(shop, catcher, lambda: flag.__setitem__(0, 1))
    assert standing(shop) == {SENT: WINDOW, UNTOUCHED: 20 - WINDOW}
    flag[0] = 0
    motion.beat()
    assert standing(shop) == {SENT: 20}
    assert set(catcher.copies().values()) == {1}


@pytest.fixture
def two_routes(shops: Shops, catcher: Catcher) -> Shop:
    """Urgent email waits for a server that is halted, and other email goes over another one."""
    shop = windowed(
        shops,
        catcher,
        OUTBOX_SLOTS=1,
        OUTBOX_SERVERS=[server("a", catcher.port), server("b", 1)],
        OUTBOX_ROUTES=[
            {"name": "resets", "tag": "reset", "servers": ["b"]},
            {"name": "rest", "servers": ["a"]},
        ],
    )
    circuit_breaker.trip(shop.database, "b", cause=Cause.SESSION, reason="connect: refused")
    shop.enqueue("u@x.example", priority=Priority.URGENT, tag="reset")
    return shop


def test_urgent_email_for_a_halted_server_has_nobody_give_way(
    two_routes: Shop, catcher: Catcher
) -> None:
    ticks = count()
    two_routes.runtime.clock = lambda: next(ticks) / 100
    write(two_routes, 20)
    motion = Motion(shop=two_routes)
    assert motion.beat() == 1, "the batch was cut for nothing"
    assert standing(two_routes) == {SENT: 20, UNTOUCHED: 1}


@pytest.mark.long
def test_a_batch_does_not_give_way_before_it_has_begun(shops: Shops, catcher: Catcher) -> None:
    """An urgent task that was published and is lost holds its lease: it must cause no loop."""
    shop = windowed(shops, catcher, OUTBOX_SLOTS=2, OUTBOX_RATE="120/min")
    shop.enqueue("u@x.example", priority=Priority.URGENT)
    motion = Motion(shop=shop)
    motion.sweep()
    motion.waiting.clear()  # the broker lost it
    shop.later(1)
    write(shop, 3)
    take(shop.database, {"all": (Rate(2, 1), 1)})
    until_sent = 1.5  # seconds, at two emails a second
    assert motion.beat() <= 5 + until_sent / ASK_EVERY
    assert standing(shop)[SENT] >= 1
