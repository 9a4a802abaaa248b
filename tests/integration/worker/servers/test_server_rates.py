"""Each server's own rate, whatever route brings an email to it; and no batch claimed in vain."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from outbox import Priority
from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.scheduling.token_bucket import SLACK, Rate
from outbox.store.control import circuit_breaker
from outbox.store.control.rate_limits import seconds_until_open, take
from outbox.worker.batch import sending
from outbox.worker.batch.throttle import Throttle
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, attempts, server, standing, write
from tests.support.shop.steps.pauses import Pauses

pytestmark = pytest.mark.one_database("postgresql")

SENT = ("sent", 1, 0, 0)
HOUR = 3600.0


@pytest.fixture
def spare() -> Iterator[Catcher]:
    with Catcher() as second:
        yield second


def pair(shops: Shops, catcher: Catcher, spare: Catcher, *rates: str, **config: object) -> Shop:
    """Open a shop on two servers: `catcher` is A and `spare` is B."""
    servers = [
        server("a", catcher.port, rate=rates[0]),
        server("b", spare.port, rate=rates[1], order=2),
    ]
    return shops.open(OUTBOX_SERVERS=servers, **config)


def beats(motion: Motion, count: int = 10) -> int:
    """Let beat go on at one moment of the database's clock; return the batches run."""
    return sum(motion.beat() for _ in range(count))


def test_a_route_of_one_server_is_claimed_from_at_its_rate(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(OUTBOX_SERVERS=[server("a", catcher.port, rate="1/h")])
    write(shop, 5)
    motion = Motion(shop=shop)
    for hour in range(1, 4):
        assert beats(motion) <= 2
        assert len(catcher.emails) == hour
        shop.later(HOUR)
    assert min(motion.wakes) > HOUR - 10, "when it opens"


@pytest.mark.long
def test_what_one_server_may_not_take_goes_over_the_other_and_neither_exceeds_its_rate(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    shop = pair(shops, catcher, spare, "1/h", "1/h")
    write(shop, 9)
    motion = Motion(shop=shop)
    for taken in range(1, 7):
        assert beats(motion) <= 3, "claimed in vain"
        assert (len(catcher.emails), len(spare.emails)) == (-(-taken // 2), taken // 2)
        shop.later(HOUR / 2 + 1)
    assert standing(shop)[SENT] == 6


@pytest.mark.long
def test_a_server_without_a_rate_takes_the_rest(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    shop = pair(shops, catcher, spare, "1/h", "")
    write(shop, 25)
    motion = Motion(shop=shop)
    assert beats(motion, 1) <= 3
    assert (len(catcher.emails), len(spare.emails)) == (1, 24)
    write(shop, 5)
    motion.beat()
    assert (len(catcher.emails), len(spare.emails)) == (1, 29)


@pytest.mark.long
@pytest.mark.parametrize("probing", [False, True])
def test_a_rate_holds_where_the_other_server_is_halted_and_nothing_is_claimed_in_vain(
    shops: Shops, catcher: Catcher, spare: Catcher, probing: bool
) -> None:
    """The lane alone would let through what both servers may take together."""
    shop = pair(shops, catcher, spare, "1/h", "100000/h")
    circuit_breaker.trip(shop.database, "b", cause=Cause.SESSION, reason="connect: refused")
    write(shop, 9)
    motion = Motion(shop=shop)
    assert beats(motion) <= 2, "claimed in vain"
    assert (len(catcher.emails), len(spare.emails)) == (1, 0)
    assert drain(shop.runtime) == 0
    if probing:
        shop.later(5.1)
        assert motion.beat() >= 1
        assert len(catcher.emails) == 1
        assert len(spare.emails) == 8


@pytest.mark.long
def test_an_email_that_probes_is_charged_to_its_server_s_rate(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    shop = pair(shops, catcher, spare, "1/h", "1/h")
    circuit_breaker.trip(shop.database, "b", cause=Cause.EMAILS, reason="connect: refused")
    shop.later(5.1)
    write(shop, 9)
    assert beats(Motion(shop=shop)) <= 3
    assert (len(catcher.emails), len(spare.emails)) == (0, 1)
    assert seconds_until_open(shop.database, ["server:b"])["server:b"] > HOUR - 10


def test_a_server_whose_rate_another_route_used_up_is_not_claimed_for(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    shop = pair(
        shops,
        catcher,
        spare,
        "1/h",
        "10000/h",
        OUTBOX_ROUTES=[{"name": "news", "tag": "news", "servers": ["b"]}],
    )
    take(shop.database, {name: (Rate(1, HOUR), 1) for name in ("server:a", "server:b")})
    write(shop, 9)
    motion = Motion(shop=shop)
    assert beats(motion) == 0, "neither has a permit, though the route's bucket is open"
    assert HOUR / 2 < min(motion.wakes) < HOUR


def test_a_permit_that_others_snatch_does_not_bring_sweep_after_sweep(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the claim and the start the bucket closes: that batch waits for the next beat."""
    shop = shops.open(OUTBOX_SERVERS=[server("a", catcher.port, rate="1/h")])
    write(shop, 1)
    motion = Motion(shop=shop)
    motion.sweep()
    take(shop.database, {"server:a": (Rate(1, HOUR), 1)})
    assert not motion.work()
    assert standing(shop) == {("pending", 0, 0, 0): 1}


@pytest.mark.long
def test_traffic_splits_over_two_rates_at_the_pace_of_both_together(
    shops: Shops, catcher: Catcher, spare: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A alone would need 20 seconds."""
    shop = pair(shops, catcher, spare, "2/s", "2/s")
    pause = Pauses(shop)
    monkeypatch.setattr(sending, "Throttle", partial(Throttle, pause=pause))
    write(shop, 40)
    motion, began = Motion(shop=shop), time.monotonic()
    while set(shop.statuses()) != {"sent"}:
        motion.beat()
        motion.claims.clear()
        pause(0.1)
    waited = sum(pause.made)
    split = Counter[str]()
    for (name, _), count in attempts(shop).items():
        split[name] += count
    seconds = waited + time.monotonic() - began
    assert split["a"] + split["b"] == 40
    assert max(split.values()) <= 2 * (seconds + SLACK) + 2, "one window may be over"
    assert seconds >= (40 - 2) / 4 - SLACK, "the first of each comes at once"
    assert waited <= 40 / 4 + 2, "permits were left lying"


@pytest.mark.long
def test_the_first_server_keeps_its_order_while_it_has_permits(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    """What closes the lane is the rate of all: the second server would be no help."""
    shop = pair(shops, catcher, spare, "1000/s", "1000/s", OUTBOX_RATE="20/s")
    write(shop, 15, priority=Priority.URGENT)
    motion = Motion(shop=shop)
    while set(shop.statuses()) != {"sent"}:
        motion.beat()
    assert (len(catcher.emails), len(spare.emails)) == (15, 0)
