"""A server that has just come back meets a trickle that doubles, whatever routes lead to it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control import circuit_breaker
from outbox.store.records import Claim
from outbox.worker.batch.batch_end import BatchReport
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.sweep import sweep
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, limits, server, standing, write
from tests.support.shop.steps.pauses import stand_still
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("postgresql")

WORKERS = 8
SENT = ("sent", 1, 0, 0)


class Crowd:
    """Eight workers, each of which starts every batch that its sweeps claim, and never waits.

    The server holds every session at its first recipient, until the crowd ends.
    """

    def __init__(self, shop: Shop, catcher: Catcher) -> None:
        self._shop = shop
        self._pool = ThreadPoolExecutor(4 * WORKERS)
        self._tasks: list[Future[BatchReport]] = []
        self._gate = catcher.hold_at("recipient")

    @property
    def reached(self) -> int:
        """How many connections have come so far."""
        return self._gate.reached

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._gate.open()
        self._pool.shutdown()

    def sweep(self) -> int:
        """Sweep once and run the batches until the server holds them; return how many there are."""
        claims: list[Claim] = []
        sweep(self._shop.runtime, claims.append)
        self._tasks += [self._pool.submit(send_batch, self._shop.runtime, c.token) for c in claims]
        wait_until(lambda: self._settled, 20, "the tasks")
        return len(claims)

    @property
    def _settled(self) -> bool:
        return self.reached + sum(task.done() for task in self._tasks) >= len(self._tasks)


@pytest.fixture
def spare() -> Iterator[Catcher]:
    with Catcher() as second:
        yield second


def recovered(shop: Shop, name: str = "a") -> None:
    """Have the server come back, and stop the clock in the middle of the ramp's first second."""
    circuit_breaker.trip(shop.database, name, cause=Cause.SESSION, reason="connect: refused")
    circuit_breaker.close(shop.database, name)
    stand_still(shop).later(0.5)


def small(**config: Any) -> dict[str, Any]:
    return {"OUTBOX_BATCH": 2, "OUTBOX_WINDOW": 2, "OUTBOX_SLOTS": WORKERS} | config


def no_herd(shop: Shop, catcher: Catcher) -> bool:
    """Return whether the connections rise to all, and are never more than the ramp says."""
    seen: list[int] = []
    with Crowd(shop, catcher) as crowd:
        for _ in range(5):
            for _ in range(3):
                crowd.sweep()
            seen.append(crowd.reached)
            assert crowd.reached <= (limit(shop) or WORKERS), "a herd"
            shop.later(1.0)
    return seen[0] < seen[-1] == WORKERS


def limit(shop: Shop) -> int | None:
    return limits(shop).get("a")


@pytest.mark.long
def test_after_an_outage_the_connections_rise_with_the_ramp(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(**small(OUTBOX_SERVERS=[server("a", catcher.port)]))
    write(shop, 60)
    recovered(shop)
    assert no_herd(shop, catcher)


@pytest.mark.long
def test_two_routes_together_are_no_herd(shops: Shops, catcher: Catcher) -> None:
    routes = [{"name": "news", "tag": "news", "servers": ["a"]}]
    servers = [server("a", catcher.port)]
    shop = shops.open(**small(OUTBOX_SERVERS=servers, OUTBOX_ROUTES=routes))
    write(shop, 40, tag="news")
    write(shop, 40)
    recovered(shop)
    assert no_herd(shop, catcher)


@pytest.mark.long
def test_what_a_server_in_its_ramp_does_not_take_yet_goes_over_the_next(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    servers = [server("a", catcher.port), server("b", spare.port, order=2)]
    shop = shops.open(**small(OUTBOX_SERVERS=servers))
    write(shop, 60)
    recovered(shop)
    with Crowd(shop, catcher) as crowd:
        for _ in range(3):
            crowd.sweep()
        assert crowd.reached <= (limit(shop) or WORKERS) < WORKERS
        assert len(spare.emails) >= 20


@pytest.mark.long
def test_after_the_ramp_nothing_is_held_back(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(**small(OUTBOX_SERVERS=[server("a", catcher.port)]))
    write(shop, 16)
    recovered(shop)
    shop.later(7)
    with Crowd(shop, catcher) as crowd:
        assert crowd.sweep() == crowd.reached == WORKERS
    assert standing(shop) == {SENT: 16}


def test_the_place_in_the_ramp_comes_free_with_its_batch(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(**small(OUTBOX_SERVERS=[server("a", catcher.port)]))
    write(shop, 8)
    recovered(shop)
    motion = Motion(shop=shop)
    for _ in range(4):
        assert len(motion.sweep()) == 1
        assert motion.work()
    assert standing(shop) == {SENT: 8}
