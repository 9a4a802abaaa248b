"""Between refusals that are taken back, others ended otherwise: only a success ends the row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outbox.domain.delivery.refusal_streak import IN_ANY_WORDS
from outbox.domain.delivery.transaction import Reply
from tests.integration.store.transitions.test_uncharge import charged, enqueued, judged, reviewed
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

UNKNOWN = Reply(code=550, enhanced="5.1.1", text="no such user")
GREYLISTED = Reply(code=451, enhanced="4.7.1", text="Greylisted, come back later")
OTHER = Reply(code=550, enhanced="5.7.1", text="Access denied")


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("reply", "end"),
    [
        (UNKNOWN, ("failed", 1)),
        (GREYLISTED, ("pending", 1)),
        (OTHER, ("pending", 0)),
    ],
    ids=["unknown", "greylisted", "other words"],
)
def test_what_ended_otherwise_in_between_hides_none_of_them(
    shop: Shop, reply: Reply, end: tuple[str, int]
) -> None:
    judged(shop, *enqueued(shop, 2))
    between = shop.enqueue("between@x.example").id
    judged(shop, between, reply=reply)
    assert not reviewed(shop, 3), "in other words it is none of the three"
    judged(shop, shop.enqueue("last@y.example").id)
    assert reviewed(shop, 3)
    row = shop.email_row(between)
    assert (row.status, row.attempts) == end
    assert charged(shop).count(("pending", 0)) == 3 + (end == ("pending", 0))


@pytest.mark.long
def test_enough_in_any_words_show_it_too(shop: Shop) -> None:
    for number in range(3 * IN_ANY_WORDS):
        assert not reviewed(shop, 3)
        judged(
            shop,
            shop.enqueue(f"r@{number}.example").id,
            reply=replace(OTHER, text="denied as " + "a" * (number + 1)),
        )
    assert reviewed(shop, 3)
    assert set(charged(shop)) == {("pending", 0)}
    (row,) = shop.rows(shop.tables.breaker)
    assert row.reason.startswith("every email is refused in several ways, the last of them: rcpt:")
