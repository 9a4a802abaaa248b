"""Only for email that a sweep would claim do others give way, or stop to wait for a reply."""

from __future__ import annotations

import pytest

from outbox import Priority
from outbox.store.control.passed_over import pass_over
from outbox.store.queries.sweep import preemption
from outbox.worker.capacity.claimable import are_left
from tests.integration.store.queries.test_lanes import bulk, swept
from tests.support.shop.giving_way import gives_way
from tests.support.shop.motion import server
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is due has waited for long enough."""
    monkeypatch.setattr(preemption, "_UNCLAIMED", 0.0)
    monkeypatch.setattr(preemption, "_LEFT", 0.0)


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
