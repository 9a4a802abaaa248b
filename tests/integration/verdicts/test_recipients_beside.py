"""A recipient whom the server takes gets the email, whatever it says to the others beside them."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from outbox.worker.drain import drain
from tests.integration.verdicts.impatient import OK, ImpatientServer
from tests.support.shop.shop import Shop, Shops
from tests.support.verdicts.reverse_path import GMAIL, SES, TOO_MANY

pytestmark = pytest.mark.databases("sqlite")

HOUR = 3600.0
PIPELINING = pytest.mark.parametrize("pipelining", [False, True], ids=["in turn", "pipelined"])


def says(reply: str, address: str) -> str:
    return reply if address.startswith("bad") else OK


def open_shop(shops: Shops, server: ImpatientServer, **config: object) -> Shop:
    shop = shops.open(MAIL_PORT=server.port, **config)
    shop.runtime.random = lambda: 0.5
    return shop


@PIPELINING
@pytest.mark.parametrize("reply", [GMAIL, SES, TOO_MANY, "530 5.7.0 Authentication required"])
@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids=str)
def test_a_throttle_that_one_recipient_meets_is_their_own_where_another_is_taken(
    shops: Shops, order: tuple[str, ...], reply: str, pipelining: bool
) -> None:
    with ImpatientServer(partial(says, reply), pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*(f"{name}@x.example" for name in order))
        drain(shop.runtime)
        row = shop.mail(email.id)
        assert (row.status, row.attempts) == ("pending", 1)
        assert shop.recipients(email.id) == {"good@x.example": "sent", "bad@x.example": "pending"}
        assert shop.count(shop.tables.breaker) == 0
        smtp.says = lambda _: OK
        shop.later(HOUR)
        drain(shop.runtime)
        assert shop.mail(email.id).status == "sent"
    assert smtp.copies == Counter(["good@x.example", "bad@x.example"])
