"""`enqueue_many` writes all or none, whatever the iterable that it reads does to the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, registry

from outbox import InvalidMessage, OutboxError
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("small_chunks")]

MANY = 250
HALF = 150
"""Some chunks are written by then, and some are to come."""

ENDS: dict[str, Callable[[Session], object]] = {
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "close": lambda session: session.close(),
}


def interrupted(session: Session, end: Callable[[Session], object]) -> Iterator[str]:
    for place, address in enumerate(addresses(MANY)):
        if place == HALF:
            end(session)
        yield address


@pytest.mark.matrix
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "different"])
def test_an_iterable_that_ends_the_transaction_is_refused_and_nothing_stands(
    shop: Shop, end: str, shared: bool
) -> None:
    with shop.session() as session:
        shop.order(session)
        readers = interrupted(session, ENDS[end])
        what = (newsletter(), readers) if shared else (map(message, readers), None)
        with pytest.raises(OutboxError, match="transaction"):
            shop.outbox.enqueue_many(*what, session=session)
        session.commit()
    assert shop.count(shop.tables.email) == shop.count(shop.tables.content) == 0
    assert shop.count(shop.orders) == (1 if end == "commit" else 0)


def test_after_the_refusal_the_session_goes_on(shop: Shop) -> None:
    with shop.session() as session:
        with pytest.raises(OutboxError):
            shop.outbox.enqueue_many(
                newsletter(), interrupted(session, ENDS["commit"]), session=session
            )
        shop.order(session)
        shop.outbox.enqueue_many(newsletter(), addresses(2), session=session)
        session.commit()
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.count(shop.orders) == 1
    assert shop.count(shop.tables.email) == 3


@pytest.mark.long
def test_an_iterable_may_write_and_set_savepoints_of_its_own(shop: Shop) -> None:
    with shop.session() as session:

        def readers() -> Iterator[str]:
            for address in addresses(MANY):
                with session.begin_nested():
                    shop.order(session, address)
                yield address

        assert shop.outbox.enqueue_many(newsletter(), readers(), session=session) == MANY
        session.commit()
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == MANY


def ending_badly(look: Callable[[str], object]) -> Iterator[str]:
    """Recipients, the last of which is none. The caller's code looks at the later ones."""
    for place, address in enumerate(addresses(MANY)):
        if place >= HALF:
            look(address)
        yield address
    yield "none"


class Order:
    """A row of the shop's own table, as an object of a session."""

    customer: str


@pytest.fixture
def order(shop: Shop) -> Iterator[Order]:
    """An order that nothing has written yet."""
    mapped = registry()
    mapped.map_imperatively(Order, shop.orders)
    made = Order()
    made.customer = "Grace"
    yield made
    mapped.dispose()


def test_what_waited_in_the_session_outlives_a_run_that_fails(shop: Shop, order: Order) -> None:
    with shop.session() as session:
        session.add(order)
        shop.outbox.enqueue(message(), session=session)
        query = select(Order).limit(1)
        with pytest.raises(InvalidMessage):
            shop.outbox.enqueue_many(
                newsletter(), ending_badly(lambda _: session.scalar(query)), session=session
            )
        session.commit()
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 1


def test_a_run_that_fails_with_what_its_iterable_wrote_is_not_committed(shop: Shop) -> None:
    with shop.session() as session:
        with pytest.raises(InvalidMessage):
            shop.outbox.enqueue_many(
                newsletter(), ending_badly(partial(shop.order, session)), session=session
            )
        with pytest.raises(OutboxError, match="roll the session back"):
            session.commit()
        session.rollback()
        shop.order(session)
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 1


def test_it_is_taken_back_by_a_savepoint_round_it(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        with pytest.raises(InvalidMessage), session.begin_nested():
            shop.outbox.enqueue_many(
                newsletter(), ending_badly(partial(shop.order, session)), session=session
            )
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)


def test_a_savepoint_that_takes_back_one_such_run_forgives_no_run_outside_of_it(shop: Shop) -> None:
    def fail(session: Session, name: str) -> None:
        readers = ending_badly(lambda address: shop.order(session, f"{name} {address}"))
        with pytest.raises(InvalidMessage):
            shop.outbox.enqueue_many(newsletter(), readers, session=session)

    with shop.session() as session:
        fail(session, "Ada")
        savepoint = session.begin_nested()
        fail(session, "Bob")
        savepoint.rollback()
        with pytest.raises(OutboxError, match="roll the session back"):
            session.commit()
        session.rollback()
        shop.order(session)
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)
