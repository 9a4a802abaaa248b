"""What a request does in its own transaction keeps no other request from its enqueue.

MariaDB's REPEATABLE READ, its default, locks gaps too: where a statement finds nothing, or passes
over more rows than it names, others' inserts wait until the transaction ends, or die of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import Status
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter
from tests.support.shop.watching.impatient import impatient_url

pytestmark = pytest.mark.databases("mariadb")

LARGE = "A large text. " * 10_000
Step = Callable[[Shop, Session], object]


@pytest.fixture
def others(database_url: str, shops: Shops) -> Iterator[Shop]:
    """The shop of other requests: where one of these waits for a lock, it fails."""
    opened = Shops(url=impatient_url(database_url), has_tables=True, shared=shops.shared.apart())
    yield opened.open()
    opened.close()


def stocked(shop: Shop) -> None:
    """Some emails, as a shop has them: too few for the optimizer to use an index."""
    for key in ("order-3", "order-5"):
        shop.enqueue(key=key, tag=f"about-{key}")
    shop.enqueue("a@x.example", "b@x.example", tag="several")
    shop.enqueue(tag="about-order-9")
    for _ in range(3):
        shop.enqueue()


def everybody_enqueues(others: Shop) -> None:
    """Enqueue whatever there is, each in a transaction of its own."""
    others.enqueue()
    for key in ("a", "order-1", "order-4", "order-6", "z"):
        others.enqueue(key=key, tag=f"about-{key}")
    others.enqueue("a@x.example", "b@x.example")
    others.enqueue(tag="about-order-3")
    with others.session() as session:
        others.outbox.enqueue_many(newsletter(), addresses(3), session=session, key=str)
        others.outbox.enqueue_many([message(text=LARGE)] * 2, session=session)
        session.commit()


def cancels(**which: Any) -> Step:
    return lambda shop, session: shop.outbox.cancel(session=session, **which)


def enqueues(*to: str, **options: Any) -> Step:
    def step(shop: Shop, session: Session) -> None:
        mail = message(*to, text=options.pop("text", "Thank you."))
        shop.outbox.enqueue(mail, session=session, **options)

    return step


STEPS: dict[str, Step] = {
    "cancel of no id": cancels(id=99),
    "cancel of no key": cancels(key="order-2"),
    "cancel of a key before all": cancels(key="a-key"),
    "cancel of a key after all": cancels(key="zzz"),
    "cancel of no tag": cancels(tag="about-nothing"),
    "cancel by id": cancels(id=4),
    "cancel by key": cancels(key="order-3"),
    "cancel by tag": cancels(tag="about-order-9"),
    "cancel of one with several recipients": cancels(tag="several"),
    "enqueue": enqueues(),
    "enqueue with a new key": enqueues(key="order-7"),
    "enqueue with a known key": enqueues(key="order-3"),
    "enqueue to several": enqueues("a@x.example", "b@x.example"),
    "enqueue of a large content": enqueues(text=LARGE),
}


@pytest.mark.parametrize("step", STEPS)
def test_others_enqueue_while_the_transaction_of_a_request_is_open(
    shop: Shop, others: Shop, step: str
) -> None:
    stocked(shop)
    with shop.session() as session:
        shop.order(session)
        STEPS[step](shop, session)
        everybody_enqueues(others)
        session.commit()
    assert len(shop.rows(shop.orders)) == 1


def test_a_withdrawal_in_an_old_transaction_sees_what_a_claim_has_done_since(shop: Shop) -> None:
    """It looks by what it saw, and locks by what is: nothing is withdrawn that is being sent."""
    sent, claimed, partly = (
        shop.enqueue(tag="t"),
        shop.enqueue(tag="t"),
        shop.enqueue("a@x.example", "b@x.example", tag="t"),
    )
    with shop.session() as session:
        assert session.execute(sa.select(sa.func.count()).select_from(shop.orders)).scalar() == 0
        shop.order(session)
        made = shop.started()
        shop.open(made.token, sent.id)
        recipient = shop.tables.recipient
        with shop.engine.begin() as connection:
            first = recipient.c.address == "a@x.example"
            connection.execute(sa.update(recipient).where(first).values(status="sent"))
        assert shop.outbox.cancel(tag="t", session=session) == 1
        session.commit()
    assert shop.status(sent.id) is Status.SENDING
    assert shop.status(claimed.id) is Status.CANCELLED
    assert shop.status(partly.id) is Status.SENT
    assert shop.recipients(partly.id) == {"a@x.example": "sent", "b@x.example": "failed"}
