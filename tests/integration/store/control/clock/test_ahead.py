"""A database clock that was ahead for a moment: no bucket stays closed for what it had shown."""

from __future__ import annotations

import pytest

from outbox import Priority
from outbox.domain.scheduling.token_bucket import LONGEST, SLACK, Rate
from outbox.store.control import rate_limits as store
from outbox.store.control.rate_limits import take
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.worker.sweep import sweep
from tests.integration.store.queries.test_lanes import swept
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.giving_way import gives_way

pytestmark = pytest.mark.each_database

HOUR = 3600.0
SECOND, MINUTE, DAILY = Rate(1, 1), Rate(500, 60), Rate(1, 86_400)
SOON = 20.0  # seconds that a test may take on a busy machine
BUCKET = "domain:gmail.com"


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop with a rate for one domain."""
    return shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/s"})


def taken_ahead(shop: Shop, rate: Rate, permits: int) -> None:
    """Take permits while the database's clock is an hour ahead."""
    shop.later(HOUR)
    assert take(shop.database, {BUCKET: (rate, permits)}) == 0.0
    shop.later(-HOUR)


@pytest.mark.long
def test_a_bucket_that_was_taken_from_an_hour_ahead_opens_as_any_other(shop: Shop) -> None:
    taken_ahead(shop, SECOND, 1)
    assert 0.0 < take(shop.database, {BUCKET: (SECOND, 1)}) <= 1.0
    swept(shop)
    shop.later(1.0)
    assert take(shop.database, {BUCKET: (SECOND, 1)}) == 0.0
    assert 0.0 < take(shop.database, {BUCKET: (SECOND, 1)}) <= 1.0


@pytest.mark.long
def test_its_lane_is_claimed_from_and_nobody_sleeps_for_an_hour(shop: Shop) -> None:
    taken_ahead(shop, SECOND, 1)
    email = shop.enqueue("a@gmail.com")
    asked: list[float] = []
    sweep(shop.runtime, lambda _: None, asked.append)
    assert (shop.status(email.id), asked) == ("claimed", [])


def test_urgent_email_of_its_lane_has_the_others_give_way(shop: Shop) -> None:
    taken_ahead(shop, SECOND, 1)
    shop.enqueue("a@x.example")
    swept(shop)
    shop.enqueue("a@gmail.com", priority=Priority.URGENT)
    assert gives_way(shop, slots=1)


def test_what_was_taken_is_still_paid_off(shop: Shop) -> None:
    """An email to a thousand recipients closes a lane for two minutes: no less, and no more."""
    taken_ahead(shop, MINUTE, 1000)

    def left() -> list[float]:
        found = read_snapshot(shop.database, shop.runtime.lanes, shop.runtime.servers, limit=1)
        (told,) = shop.database.read(lambda c: store.rate_limited(c, shop.database))
        refused = take(shop.database, {BUCKET: (MINUTE, 1)})
        (waits,) = store.seconds_until_open(shop.database, [BUCKET]).values()
        return [found.lags[BUCKET], told["opens_in"], refused, waits]

    assert all(120 - SLACK - SOON < seconds <= 120 for seconds in left())
    assert swept(shop) == []
    shop.later(60)
    assert all(60 - SLACK - SOON < seconds <= 60 for seconds in left()), "a sweep set it right"
    shop.later(60)
    assert take(shop.database, {BUCKET: (MINUTE, 1)}) == 0.0


def test_debts_are_added_to_what_was_taken_and_not_to_the_hour(shop: Shop) -> None:
    taken_ahead(shop, SECOND, 100)
    take(shop.database, {}, debts={BUCKET: (SECOND, 100)})
    (waits,) = store.seconds_until_open(shop.database, [BUCKET]).values()
    assert 200 - SLACK - SOON < waits <= 200


def test_a_take_by_a_version_that_does_not_know_when_it_took_counts_as_it_did(shop: Shop) -> None:
    take(shop.database, {BUCKET: (MINUTE, 1000)})
    with shop.engine.begin() as connection:
        connection.execute(shop.tables.bucket.update().values(taken_at=None))
    assert 120 - SLACK - SOON < take(shop.database, {BUCKET: (MINUTE, 1)}) <= 120 - SLACK
    assert swept(shop) == []


def test_no_debt_grows_beyond_what_a_database_can_tell(shops: Shops) -> None:
    """Every sweep would fail on a moment after the year 9999."""
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"})
    for _ in range(40):
        take(shop.database, {}, debts={BUCKET: (DAILY, 100_000)})
    found = read_snapshot(shop.database, shop.runtime.lanes, shop.runtime.servers, limit=1)
    assert LONGEST - SOON < found.lags[BUCKET] <= LONGEST
    assert swept(shop) == []
