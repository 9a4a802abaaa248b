"""An email goes over its route, by tag or sender; a route that is halted holds up no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from random import Random

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control import circuit_breaker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, attempts, server, standing, write

pytestmark = pytest.mark.one_database("sqlite")

SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)
ROUTES = [
    {"name": "news", "tag": "news-*", "servers": ["bulk"]},
    {"name": "brand", "sender_domain": "brand.example", "servers": ["bulk", "own"]},
    {"name": "rest", "servers": ["own"]},
]


@pytest.fixture
def bulk() -> Iterator[Catcher]:
    with Catcher() as second:
        yield second


@pytest.fixture
def config(catcher: Catcher, bulk: Catcher) -> dict[str, object]:
    servers = [server("own", catcher.port, order=2), server("bulk", bulk.port)]
    return {"OUTBOX_SERVERS": servers, "OUTBOX_ROUTES": ROUTES}


@pytest.fixture
def shop(shops: Shops, config: dict[str, object]) -> Shop:
    return shops.open(**config)


def enqueue(shop: Shop, mail: EmailMessage, **options: str) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(mail, session=session, **options)  # type: ignore[arg-type]
        session.commit()


def branded() -> EmailMessage:
    mail = message("brand@x.example")
    mail.replace_header("From", "hello@brand.example")
    return mail


def arrived(catcher: Catcher) -> set[str]:
    return {mail.recipients[0].partition("@")[0] for mail in catcher.emails}


def write_each(shop: Shop) -> None:
    enqueue(shop, message("news@x.example"), tag="news-42")
    enqueue(shop, branded())
    enqueue(shop, message("order@x.example"), tag="order")


def test_tag_and_sender_choose_the_servers_and_the_rest_takes_the_default(
    shop: Shop, catcher: Catcher, bulk: Catcher
) -> None:
    write_each(shop)
    Motion(shop=shop).beat()
    assert (arrived(bulk), arrived(catcher)) == ({"news", "brand"}, {"order"})
    assert standing(shop) == {SENT: 3}
    assert {row.lane for row in shop.rows(shop.tables.email)} == {"news", "brand", "rest"}


@pytest.mark.long
def test_a_route_whose_servers_are_all_halted_is_not_claimed_from_while_others_go_on(
    shop: Shop, catcher: Catcher, bulk: Catcher
) -> None:
    bulk.stop()
    motion = Motion(shop=shop)
    write_each(shop)
    motion.beat()
    assert (arrived(catcher), standing(shop)) == ({"brand", "order"}, {SENT: 2, UNTOUCHED: 1})
    write_each(shop)
    before = len(motion.claims)
    motion.beat()
    assert {claim.lane for claim in motion.claims[before:]} == {"brand", "rest"}
    assert motion.beat() == 0
    bulk.start()
    shop.later(5.1)
    motion.until_empty()
    assert arrived(bulk) >= {"news"}
    assert standing(shop) == {SENT: 6}
    assert (bulk.copies() + catcher.copies()).total() == 6


def test_a_probe_is_an_email_of_a_route_of_that_server(
    shop: Shop, catcher: Catcher, bulk: Catcher
) -> None:
    circuit_breaker.trip(shop.database, "bulk", cause=Cause.SESSION, reason="connect: refused")
    shop.later(5.1)
    enqueue(shop, message("order@x.example"), tag="order")
    motion = Motion(shop=shop)
    motion.beat()
    assert (arrived(catcher), bulk.sessions) == ({"order"}, 0)
    assert shop.rows(shop.tables.breaker)[0].failures == 1, "no probe was taken for nothing"
    enqueue(shop, message("news@x.example"), tag="news-1")
    motion.beat()
    assert (arrived(bulk), shop.count(shop.tables.breaker)) == ({"news"}, 0)


def test_a_route_that_is_configured_no_more_is_the_default_one(
    shop: Shop, shops: Shops, config: dict[str, object], catcher: Catcher, bulk: Catcher
) -> None:
    write_each(shop)
    later = shops.open(**config | {"OUTBOX_ROUTES": ROUTES[1:]})
    Motion(shop=later).beat()
    assert arrived(catcher) == {"news", "order"}
    assert standing(shop) == {SENT: 3}


def test_a_server_that_is_configured_no_more_holds_up_nothing(
    shop: Shop, shops: Shops, catcher: Catcher, bulk: Catcher
) -> None:
    circuit_breaker.trip(shop.database, "bulk", cause=Cause.SESSION, reason="connect: refused")
    write_each(shop)
    later = shops.open(OUTBOX_SERVERS=[server("own", catcher.port)])
    Motion(shop=later).beat()
    assert standing(shop) == {SENT: 3}
    assert attempts(shop) == {("own", "sent"): 3}


def test_a_route_with_a_domain_s_rate_has_a_lane_of_its_own(
    shops: Shops, config: dict[str, object], catcher: Catcher, bulk: Catcher
) -> None:
    shop = shops.open(**config, OUTBOX_DOMAIN_RATES={"readers.example": "1/h"})
    write(shop, 3, tag="news-1")
    write(shop, 3)
    enqueue(shop, message("a@x.example"), tag="news-1")
    motion = Motion(shop=shop)
    assert motion.beat() <= 4
    assert {row.lane for row in shop.rows(shop.tables.email)} == {
        "news@readers.example",
        "rest@readers.example",
        "news",
    }
    assert len(bulk.emails) + len(catcher.emails) == 2, "one reader in an hour, over either server"


@pytest.mark.over_and_over
@pytest.mark.long
@pytest.mark.parametrize(("weights", "shares"), [((1, 1), (40, 60)), ((3, 1), (65, 85))])
def test_servers_of_one_order_share_by_weight(
    shops: Shops, catcher: Catcher, weights: Sequence[int], shares: tuple[int, int]
) -> None:
    with Catcher() as spare:
        servers = [
            server("a", catcher.port, weight=weights[0]),
            server("b", spare.port, weight=weights[1]),
        ]
        shop = shops.open(OUTBOX_SERVERS=servers, OUTBOX_BATCH=1, OUTBOX_WINDOW=1)
        shop.runtime.random = Random(1).random
        write(shop, 100)
        motion = Motion(shop=shop)
        motion.sweep()
        while motion.waiting:
            motion.work()
            motion.sweep()
        assert standing(shop) == {SENT: 100}
        assert shares[0] <= len(catcher.emails) <= shares[1]
