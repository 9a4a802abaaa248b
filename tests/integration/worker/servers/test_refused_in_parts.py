"""A server refuses everybody alike while emails go to it in parts: each recipient gets one copy."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest

from tests.support.servers.smtp.sessions import PLAIN, SessionServer
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, halted, server

pytestmark = pytest.mark.one_database("sqlite")

BLOCKED = "554 5.7.1 blocked using zen"
ONE_AT_A_TIME = (*PLAIN, "LIMITS RCPTMAX=1")
NEEDED = 3


def blocklist(*fine: str) -> SessionServer:
    """Return a server that takes one recipient a transaction, and refuses all but the `fine`."""
    return SessionServer(
        extensions=ONE_AT_A_TIME,
        reply_to=lambda address: "250 ok" if address in fine else BLOCKED,
    )


def open_shop(shops: Shops, *servers: SessionServer) -> Shop:
    entries = [server(f"s{order}", one.port, order=order) for order, one in enumerate(servers, 1)]
    return shops.open(OUTBOX_SERVERS=entries, OUTBOX_REFUSED_ALIKE=NEEDED, OUTBOX_SLOTS=1)


def copies(*servers: SessionServer) -> Counter[str]:
    return Counter(name for one in servers for _, names in one.taken for name in names)


@pytest.mark.parametrize("fine", [("a@x.example",), ()], ids=["the first is taken", "nobody is"])
def test_another_server_gets_only_the_rest_of_an_email_whose_part_is_on_record(
    shops: Shops, fine: tuple[str, ...]
) -> None:
    with blocklist(*fine) as ill, SessionServer() as well:
        shop = open_shop(shops, ill, well)
        shop.enqueue("a@x.example", "b@x.example")
        for number in range(NEEDED):
            shop.enqueue(f"r@y{number}.example")
        motion = Motion(shop=shop)
        motion.beat()
        assert halted(shop) == {"s1"}
        motion.until_empty()
        assert set(copies(ill, well).values()) == {1}
    assert copies(ill, well)["b@x.example"] == 1


def test_what_two_servers_refuse_to_everybody_goes_to_the_third_once(shops: Shops) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(one) for one in (blocklist(), blocklist(), SessionServer())]
        shop = open_shop(shops, *servers)
        for number in range(2 * NEEDED):
            shop.enqueue(f"r@y{number}.example")
        Motion(shop=shop).beat()
        assert halted(shop) == {"s1", "s2"}
    assert copies(*servers) == {f"r@y{number}.example": 1 for number in range(2 * NEEDED)}


@pytest.mark.long
@pytest.mark.parametrize("place", [0, NEEDED - 1], ids=["first", "last"])
def test_when_the_server_is_well_again_an_email_goes_to_those_too_whom_its_parts_were_refused_for(
    shops: Shops, place: int
) -> None:
    fine: list[str] = []
    with SessionServer(
        extensions=ONE_AT_A_TIME,
        reply_to=lambda address: "250 ok" if fine else BLOCKED,
    ) as only:
        shop = open_shop(shops, only)
        envelopes = [[f"r@y{number}.example"] for number in range(NEEDED - 1)]
        envelopes.insert(place, ["a@x.example", "b@x.example", "c@x.example"])
        emails = [shop.enqueue(*recipients) for recipients in envelopes]
        motion = Motion(shop=shop)
        motion.beat()
        fine.append("everybody")
        motion.until_empty()
        assert list(shop.recipients(emails[place].id).values()) == ["sent"] * 3
        assert set(copies(only).values()) == {1}
