"""Only for email that a sweep would claim do others give way, or stop to wait for a reply."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from outbox import Priority
from outbox.store.control.passed_over import pass_over
from outbox.store.queries.sweep import preemption
from outbox.store.records import Claim
from outbox.worker.batch.throttle import Throttle
from outbox.worker.capacity import claimable
from outbox.worker.capacity.claimable import Mine, are_left
from outbox.worker.together.calm import ASK_EVERY
from tests.integration.store.queries.test_lanes import bulk, swept
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.giving_way import gives_way
from tests.support.shop.steps.motion import server

pytestmark = pytest.mark.each_database


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due has waited for long enough."""
    monkeypatch.setattr(preemption, "_UNCLAIMED", 0.0)
    monkeypatch.setattr(preemption, "_LEFT", 0.0)


@pytest.mark.long
@pytest.mark.parametrize("mine", [Priority.NORMAL, Priority.BULK])
def test_nobody_gives_way_to_email_whose_rate_is_in_flight(shops: Shops, mine: Priority) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/s"}, OUTBOX_SLOTS=4)
    shop.enqueue("a@x.example", priority=mine)
    swept(shop)
    for number in range(20):
        shop.enqueue(f"u{number}@gmail.com", priority=Priority.URGENT)
    assert gives_way(shop, mine, slots=1), "some of it may go"
    while swept(shop):
        pass
    for lease in shop.rows(shop.tables.lease):
        shop.start(lease.token)
    assert shop.statuses().count("pending") > 5
    assert not gives_way(shop, mine, slots=1), "the rest may not go for as long"
    assert not are_left(shop.runtime)
    shop.enqueue("u@x.example", priority=Priority.URGENT)
    assert gives_way(shop, mine, slots=1), "another may"
    assert are_left(shop.runtime)


def open_two(shops: Shops) -> Shop:
    return shops.open(
        OUTBOX_SERVERS=[server("narrow", 1, connections=1), server("wide", 2)],
        OUTBOX_ROUTES=[
            {"name": "narrow", "tag": "narrow", "servers": ["narrow"]},
            {"name": "wide", "servers": ["wide"]},
        ],
        OUTBOX_SLOTS=4,
    )


@pytest.mark.long
def test_nobody_gives_way_to_email_whose_server_is_full(shops: Shops) -> None:
    shop = open_two(shops)
    shop.enqueue("u@x.example", tag="narrow", priority=Priority.URGENT)
    (first,) = swept(shop)
    shop.start(first.token)
    bulk(shop, 5)
    (reader,) = swept(shop)
    shop.start(reader.token)
    shop.enqueue("v@x.example", tag="narrow", priority=Priority.URGENT)
    assert swept(shop) == []
    assert not gives_way(shop, Priority.BULK, slots=1, lane=reader.lane)
    assert not are_left(shop.runtime)


def test_a_batch_that_fills_a_server_gives_way_to_more_urgent_email_there(shops: Shops) -> None:
    shop = open_two(shops)
    shop.enqueue("n@x.example", tag="narrow")
    (mine,) = swept(shop)
    shop.start(mine.token)
    shop.enqueue("u@x.example", tag="narrow", priority=Priority.URGENT)
    assert swept(shop) == []
    assert gives_way(shop, mine.priority, slots=1, lane=mine.lane)


def test_nobody_gives_way_to_an_email_that_alone_fails(shop: Shop) -> None:
    shop.enqueue("n@x.example")
    (mine,) = swept(shop)
    shop.start(mine.token)
    failing = shop.enqueue("u@x.example", priority=Priority.URGENT)
    assert gives_way(shop, mine.priority, slots=1, lane=mine.lane)
    pass_over(shop.database, [failing.id])
    assert not gives_way(shop, mine.priority, slots=1, lane=mine.lane)
    shop.enqueue("v@x.example", priority=Priority.URGENT)
    assert gives_way(shop, mine.priority, slots=1, lane=mine.lane), "the one behind it goes"


def test_a_process_that_waits_for_a_reply_lets_the_rest_of_its_own_lane_go(shops: Shops) -> None:
    """Its emails count as in flight for the rate. Once it gives its slot up, a sweep follows."""
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "30/min"}, OUTBOX_SLOTS=4)
    bulk(shop, 5, "gmail.com")
    (made,) = swept(shop)
    batch = shop.start(made.token)
    assert batch is not None
    assert swept(shop) == []
    assert not are_left(shop.runtime), "for any other process"
    assert are_left(shop.runtime, Mine.of(batch))


@pytest.mark.databases("postgresql", "mariadb")
def test_a_locked_email_hides_none_behind_it(shops: Shops) -> None:
    shop = open_two(shops)
    shop.enqueue("n@x.example", tag="narrow")
    (mine,) = swept(shop)
    shop.start(mine.token)
    held = shop.enqueue("u@x.example", tag="narrow", priority=Priority.URGENT)
    lane = shop.email_row(held.id).lane
    table = shop.tables.email
    with shop.engine.begin() as connection:
        other = update(table).where(table.c.id == held.id).values(lane=f"{lane}@other.example")
        connection.execute(other)
    shop.enqueue("v@x.example", tag="narrow", priority=Priority.URGENT)
    with shop.engine.begin() as connection:
        connection.execute(select(table.c.id).where(table.c.id == held.id).with_for_update())
        assert gives_way(shop, mine.priority, slots=1, lane=mine.lane)


def test_a_batch_that_may_not_give_way_silences_no_other(shops: Shops) -> None:
    shop = open_two(shops)
    shop.enqueue("n@x.example", tag="narrow")
    shop.enqueue("b@x.example")
    started = [shop.start(made.token) for made in swept(shop)]
    narrow, wide = sorted(filter(None, started), key=lambda batch: batch.lane)
    shop.enqueue("u@x.example", tag="narrow", priority=Priority.URGENT)
    shop.runtime.slots.tell(1)
    now = [100.0]
    shop.runtime.clock = lambda: now[0]
    others, mine = (Throttle(shop.runtime, one) for one in (wide, narrow))
    now[0] += 1.0  # both may ask, and the one that cannot give way is first
    assert [others.must_yield(), mine.must_yield()] == [False, True]
    calm_until = shop.runtime.calm._ways_until[wide.lane, wide.priority]
    assert calm_until >= now[0] + ASK_EVERY, "its like need not ask for a while"


def while_it_waits(shop: Shop, made: Claim) -> tuple[bool, bool]:
    """Return whether a batch gives way between its windows, and while its only one waits."""
    mine = Mine(made.lane, made.priority, made.emails)
    between, waits = (
        claimable.gives_way(shop.runtime, one) for one in (mine, mine._replace(beside={}))
    )
    assert between.gives_way is waits.gives_way or not waits.is_for_all
    return between.gives_way, waits.gives_way


@pytest.mark.matrix
@pytest.mark.parametrize("urgent", [2, 9], ids=["that ends", "without end"])
def test_a_window_that_waits_for_permits_does_not_give_way_to_urgent_email_without_end(
    shops: Shops, urgent: int
) -> None:
    """Else it would do so each time that it is claimed, and never be sent."""
    shop = shops.open(OUTBOX_RATE="2/s", OUTBOX_DOMAIN_RATES={"gmail.com": "1/s"}, OUTBOX_SLOTS=1)
    shop.enqueue("n@x.example")
    (mine,) = swept(shop)
    shop.start(mine.token)
    for number in range(urgent):
        shop.enqueue(f"u{number}@x.example", priority=Priority.URGENT)
    assert while_it_waits(shop, mine) == (True, True), "none of it is in flight"
    assert swept(shop)
    assert while_it_waits(shop, mine) == (True, urgent == 2)
    assert shop.runtime.calm.has_urgent


def test_bulk_that_waits_for_permits_does_not_give_way_to_normal_email_that_shares_them(
    shops: Shops,
) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "100/min"}, OUTBOX_SLOTS=1)
    shop.enqueue("b@gmail.com", priority=Priority.BULK)
    (mine,) = swept(shop)
    shop.start(mine.token)
    shop.enqueue("n@gmail.com")
    assert while_it_waits(shop, mine) == (True, False)
    shop.enqueue("n@x.example")
    assert while_it_waits(shop, mine) == (True, True), "it needs no permits"
    assert not shop.runtime.calm.has_urgent
