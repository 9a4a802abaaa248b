"""Permits: of every bucket or of none, whoever else takes at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from outbox.domain.scheduling.token_bucket import MARGIN, SLACK, Rate
from outbox.store.connection.database import Database
from outbox.store.control import rate_limits as store
from outbox.store.control.rate_limits import take
from tests.support.shop.shop import Shop
from tests.support.shop.watching.lag import lag

pytestmark = pytest.mark.each_database

HOURLY = Rate(1, 3600)
MINUTE = Rate(500, 60)
SOON = 20.0  # seconds that a test may take on a busy machine: none of these rates counts in it


def test_an_open_bucket_gives_permits_and_is_closed_until_they_are_paid_off(shop: Shop) -> None:
    assert take(shop.database, {"all": (HOURLY, 1)}) == 0.0
    assert 3600 - SLACK - SOON < take(shop.database, {"all": (HOURLY, 1)}) <= 3600 - SLACK
    shop.later(3600)
    assert take(shop.database, {"all": (HOURLY, 1)}) == 0.0


def test_what_was_refused_costs_nothing(shop: Shop) -> None:
    take(shop.database, {"all": (HOURLY, 1)})
    before = lag(shop, "all")
    assert take(shop.database, {"all": (HOURLY, 1)}) > 0
    assert lag(shop, "all") <= before


def test_an_idle_bucket_saves_up_no_more_than_its_slack(shop: Shop) -> None:
    take(shop.database, {"all": (HOURLY, 1)})
    shop.later(86_400)
    take(shop.database, {"all": (HOURLY, 1)})
    assert 3600 - SLACK - SOON < lag(shop, "all") <= 3600 - SLACK


def test_an_email_to_a_thousand_recipients_fits_a_rate_of_five_hundred(shop: Shop) -> None:
    assert take(shop.database, {"all": (MINUTE, 1000)}) == 0.0
    assert 120 - SLACK - SOON < take(shop.database, {"all": (MINUTE, 1)}) <= 120 - SLACK
    shop.later(120)
    assert take(shop.database, {"all": (MINUTE, 1)}) == 0.0


def test_permits_are_taken_of_all_buckets_or_of_none(shop: Shop) -> None:
    take(shop.database, {"domain:x.example": (HOURLY, 1)})
    both = {"all": (MINUTE, 600), "domain:x.example": (HOURLY, 1)}
    assert take(shop.database, both) > 3600 - SLACK - SOON
    assert lag(shop, "all") < 0, "the open bucket must not pay for what the closed one refused"
    shop.later(3600)
    assert take(shop.database, both) == 0.0
    assert lag(shop, "all") > 72 - SLACK - SOON
    assert lag(shop, "domain:x.example") > 3600 - SLACK - SOON


def test_the_last_bucket_to_open_is_what_is_waited_for(shop: Shop) -> None:
    take(shop.database, {"a": (HOURLY, 1), "b": (HOURLY, 3)})
    wait = take(shop.database, {"a": (HOURLY, 1), "b": (HOURLY, 1)})
    assert 3 * 3600 - SLACK - SOON < wait <= 3 * 3600 - SLACK


def test_debts_are_charged_and_not_waited_for(shop: Shop) -> None:
    take(shop.database, {"b": (HOURLY, 1)})
    assert take(shop.database, {"a": (HOURLY, 1)}, debts={"b": (HOURLY, 1)}) == 0.0
    assert lag(shop, "b") > 2 * 3600 - SLACK - SOON
    assert take(shop.database, {}, debts={"b": (HOURLY, 1)}) == 0.0
    assert lag(shop, "b") > 3 * 3600 - SLACK - SOON


def test_all_but_urgent_email_comes_a_margin_later(shop: Shop) -> None:
    take(shop.database, {"all": (HOURLY, 1)})
    plain, later = (take(shop.database, {"all": (HOURLY, 1)}, margin=m) for m in (0.0, 60.0))
    assert 60.0 - SOON < later - plain <= 60.0


def test_without_buckets_there_is_nothing_to_take(shop: Shop) -> None:
    assert take(shop.database, {}, margin=MARGIN) == 0.0
    assert shop.count(shop.tables.bucket) == 0


def test_closed_buckets_are_told_with_the_time_until_they_open(shop: Shop) -> None:
    take(shop.database, {"a": (HOURLY, 1), "b": (MINUTE, 1)})
    shop.later(60)
    (found,) = shop.database.run(lambda c: store.rate_limited(c, shop.database))
    assert found["bucket"] == "a"
    assert 3540 - SLACK - SOON < found["opens_in"] <= 3540


def at_once(shop: Shop, work: Callable[[Database, int], float], threads: int = 6) -> list[float]:
    """Run `work` in threads that start together, each with a number of its own."""
    barrier = Barrier(threads)

    def one(number: int) -> float:
        own = Database(shop.engine, shop.tables)
        barrier.wait(30)
        return work(own, number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("known", [False, True])
def test_of_many_who_take_the_last_permit_at_once_one_gets_it(shop: Shop, known: bool) -> None:
    """Whether the buckets have been taken from before, or they all make the rows."""
    rounds, threads = 15, 6
    wants = [{f"a{n}": (HOURLY, 1), f"b{n}": (HOURLY, 1)} for n in range(rounds)]
    if known:
        for want in wants:
            take(shop.database, {name: (Rate(1e9, 1), 1) for name in want})
    together = Barrier(threads)
    got: list[int] = []

    def work(database: Database, _: int) -> float:
        for number, want in enumerate(wants):
            together.wait(60)
            if take(database, want) == 0.0:
                got.append(number)
        return 0.0

    at_once(shop, work, threads)
    assert sorted(got) == list(range(rounds))
    assert 3600 - SLACK - 60 < lag(shop, "a0") <= 3600


def test_takers_of_several_buckets_lose_no_permit_and_never_deadlock(shop: Shop) -> None:
    """Each takes as a debt, so that all get theirs: what is written is the sum."""
    names = ["a", "b", "c"]

    def work(database: Database, number: int) -> float:
        turned = names[number % 3 :] + names[: number % 3]
        for _ in range(10):
            take(database, {}, debts=dict.fromkeys(turned, (HOURLY, 1)))
        return 0.0

    at_once(shop, work)
    for name in names:
        assert 60 * 3600 - SLACK - SOON < lag(shop, name) <= 60 * 3600 - SLACK
