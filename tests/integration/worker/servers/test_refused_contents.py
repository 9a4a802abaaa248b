"""A newsletter meets a quota in its middle, in words that nobody knows: no reader pays for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from outbox import Priority
from outbox.store.control.blame.comparison import OTHERS
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops, message, newsletter
from tests.support.shop.steps.motion import Motion, standing

pytestmark = pytest.mark.one_database("postgresql")

NEEDED, WINDOW, READERS, QUOTA = 6, 4, 24, 8
REFUSED = "550 5.4.6 We do not like what you do of late"
SENT, UNTOUCHED, FAILED = ("sent", 1, 0, 0), ("pending", 0, 0, 0), ("failed", 1, 0, 0)


class Quota:
    """Takes so many emails, and refuses the rest; but never what it is told to take anyway."""

    def __init__(self, catcher: Catcher, left: int) -> None:
        self.left = left
        self.always = b"\0"
        catcher.reply_to_content = self._reply

    def _reply(self, mail: CaughtMail) -> str | None:
        if self.always in mail.content:
            return None
        self.left -= 1
        return REFUSED if self.left < 0 else None


def opened(shops: Shops, catcher: Catcher, *, batch: int) -> Shop:
    return shops.open(
        MAIL_PORT=catcher.port,
        OUTBOX_REFUSED_ALIKE=NEEDED,
        OUTBOX_WINDOW=WINDOW,
        OUTBOX_BATCH=batch,
        OUTBOX_SLOTS=1,
    )


def write(shop: Shop, *others: str) -> None:
    """Write a newsletter to readers of as many domains, and these senders' orders before it."""
    readers = [f"reader@r{number:02}.example" for number in range(READERS)]
    with shop.session() as session:
        for sender in others:
            order = message("a@customers.example", subject="Order 2")
            del order["From"]
            order["From"] = sender
            shop.outbox.enqueue(order, session=session, priority=Priority.URGENT)
        shop.outbox.enqueue_many(newsletter(), readers, session=session)
        session.commit()


def alerts(shop: Shop) -> Sequence[bool]:
    return [bool(row.alert) for row in shop.rows(shop.tables.breaker)]


@pytest.mark.long
@pytest.mark.parametrize("batch", [READERS, QUOTA, WINDOW])
def test_what_is_left_of_a_newsletter_waits_for_a_quota_and_is_sent_behind_it(
    shops: Shops, catcher: Catcher, batch: int
) -> None:
    """The batch itself has seen the content taken; or it asks the log; or it is too small."""
    quota, shop = Quota(catcher, QUOTA), opened(shops, catcher, batch=batch)
    write(shop)
    motion = Motion(shop=shop)
    motion.beat()
    assert standing(shop) == {SENT: QUOTA, UNTOUCHED: READERS - QUOTA}
    assert alerts(shop) == [True]
    for _ in range(3):
        shop.later(31)
        motion.beat()
        assert standing(shop) == {SENT: QUOTA, UNTOUCHED: READERS - QUOTA}
    quota.left = READERS
    shop.later(61)
    motion.until_empty()
    assert standing(shop) == {SENT: READERS}
    assert set(catcher.copies().values()) == {1}
    assert alerts(shop) == []


@pytest.mark.long
def test_a_newsletter_that_a_filter_refuses_from_its_first_copy_on_fails_alone(
    shops: Shops, catcher: Catcher
) -> None:
    quota, shop = Quota(catcher, 0), opened(shops, catcher, batch=READERS)
    quota.always = b"Order 2"
    write(shop, "shop@shop.example")
    Motion(shop=shop).beat()
    assert standing(shop) == {SENT: 1, FAILED: READERS}
    assert alerts(shop) == []


@pytest.mark.long
def test_a_newsletter_that_a_filter_came_to_know_fails_once_other_contents_were_taken(
    shops: Shops, catcher: Catcher
) -> None:
    quota, shop = Quota(catcher, QUOTA), opened(shops, catcher, batch=READERS)
    quota.always = b"Order 1"
    write(shop)
    motion = Motion(shop=shop)
    motion.beat()
    assert alerts(shop) == [True]
    for taken in range(1, OTHERS + 1):
        shop.later(61)
        shop.enqueue()
        motion.beat()
        assert standing(shop)[SENT] == QUOTA + taken, "the next probe is the order"
    motion.until_empty()
    assert standing(shop) == {SENT: QUOTA + OTHERS, FAILED: READERS - QUOTA}
    assert alerts(shop) == []


@pytest.mark.long
def test_what_another_sender_sent_before_it_tells_nothing(shops: Shops, catcher: Catcher) -> None:
    _, shop = Quota(catcher, QUOTA), opened(shops, catcher, batch=READERS)
    write(shop, "orders@shop.example")
    Motion(shop=shop).beat()
    assert standing(shop) == {SENT: QUOTA, UNTOUCHED: READERS + 1 - QUOTA}
    assert alerts(shop) == [True]
