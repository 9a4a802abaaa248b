"""An order can be stored as texts and read again, and what may name a person stands apart."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from outbox.domain.config.search_terms import ALL_TERMS
from outbox.domain.jobs.order import PERSONAL, Order, texts_of, values_of
from outbox.domain.search.filters import Filters

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
WHOLE = {
    "recipient": "Ada@X.example", "message_id": "1@x.example", "subject": "ORDER  ", "key": "k",
    "tag": "t", "status": "pending", "since": NOON, "until": NOON.replace(hour=13),
}  # fmt: skip


OF_GROUP = {"domain": "x.example", "server": "mx:25", "reply": "550 5.1.1", "phase": "rcpt"}


def test_an_order_of_every_filter_is_read_as_it_was_stored() -> None:
    assert {*WHOLE, *OF_GROUP} == {each.name for each in fields(Filters)}
    for action, given in (
        ("cancel", WHOLE),
        ("retry", WHOLE | OF_GROUP | {"status": "failed"}),
    ):
        order = Order.check(ALL_TERMS, action, **given)
        plain, personal = texts_of(order.filters)
        assert set(personal) == set(PERSONAL)
        assert set(plain) == given.keys() - set(PERSONAL)
        assert Order.check(ALL_TERMS, action, **values_of(plain | personal)) == order


@pytest.mark.parametrize("name", ["server", "reply", "phase"])
def test_what_a_last_attempt_did_not_have_is_read_as_it_was_stored(name: str) -> None:
    order = Order.check(ALL_TERMS, "retry", status="failed", **{name: "(none)"})
    plain, _ = texts_of(order.filters)
    assert plain == {"status": "failed", name: "(none)"}
    for stored in (plain, plain | {name: ""}):  # the second is how it was stored at first
        assert Order.check(ALL_TERMS, "retry", **values_of(stored)) == order
