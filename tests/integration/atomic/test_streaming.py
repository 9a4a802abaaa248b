"""Readers that come out of the same session while their emails are written: all, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from tests.support.shop.shop import Shop, message, newsletter

pytestmark = [
    pytest.mark.over_and_over,
    pytest.mark.each_database,
    pytest.mark.usefixtures("small_chunks"),
]

READERS = 120
"""More than one statement of `enqueue_many` writes."""
READ = 12
"""How many rows the stream holds at a time: by far not all."""


@pytest.fixture
def readers(shop: Shop) -> int:
    """So many customers, each of whom is to have an email."""
    with shop.engine.begin() as connection:
        rows = [{"customer": f"r{number:05}@readers.example"} for number in range(READERS)]
        connection.execute(sa.insert(shop.orders), rows)
    return READERS


USES: dict[str, Callable[[Shop, Session], object]] = {
    "enqueue": lambda shop, session: shop.outbox.enqueue(message(), session=session),
    "keyed": lambda shop, session: shop.outbox.enqueue(message(), session=session, key="1"),
    "enqueue_many": lambda shop, session: shop.outbox.enqueue_many(
        newsletter(), ["a@x.example"], session=session
    ),
    "cancel": lambda shop, session: shop.outbox.cancel(id=1, session=session),
}


def stream(shop: Shop, session: Session) -> Iterator[str]:
    """Yield the addresses as they are read from the session's own connection."""
    statement = sa.select(shop.orders.c.customer).order_by(shop.orders.c.id)
    yield from session.execute(statement.execution_options(yield_per=READ)).scalars()


def committed(shop: Shop) -> set[str]:
    return {row.recipient for row in shop.rows(shop.tables.email)}


def everybody() -> set[str]:
    return {f"r{number:05}@readers.example" for number in range(READERS)}


@pytest.mark.long
@pytest.mark.parametrize("way", ["shared", "keyed", "messages", "unsubscribe"])
def test_a_newsletter_to_a_stream_of_the_same_session_goes_to_all(
    shop: Shop, readers: int, way: str
) -> None:
    outbox = shop.outbox
    with shop.session() as session:
        found = stream(shop, session)
        if way == "shared":
            added = outbox.enqueue_many(newsletter(), found, session=session)
        elif way == "keyed":
            added = outbox.enqueue_many(newsletter(), found, session=session, key=str)
        elif way == "messages":
            added = outbox.enqueue_many(map(message, found), session=session)
        else:
            added = outbox.enqueue_many(
                newsletter(), found, session=session, unsubscribe="https://x.example/{}".format
            )
        session.commit()
    assert added == readers
    assert committed(shop) == everybody()


@pytest.mark.long
@pytest.mark.parametrize("way", ["fields", "unsubscribe", "keyed", "messages"])
def test_functions_may_look_readers_up_in_the_session_that_they_come_from(
    shop: Shop, readers: int, way: str
) -> None:
    outbox, customer = shop.outbox, shop.orders.c.customer
    with shop.session() as session:

        def found(address: str) -> str:
            return str(session.scalar(sa.select(customer).where(customer == address)))

        def url_of(address: Any) -> str:
            return f"https://x.example/{found(address)}"

        readers_of = stream(shop, session)
        if way == "fields":
            added = outbox.enqueue_many(
                newsletter("Hello {{ name }}"),
                readers_of,
                session=session,
                fields=lambda address: {"name": found(address)},
            )
        elif way == "unsubscribe":
            added = outbox.enqueue_many(
                newsletter(), readers_of, session=session, unsubscribe=url_of
            )
        elif way == "keyed":
            added = outbox.enqueue_many(newsletter(), readers_of, session=session, key=found)
        else:
            added = outbox.enqueue_many(
                map(message, readers_of),
                session=session,
                unsubscribe=lambda given: f"https://x.example/{found(given['To'])}",
            )
        session.commit()
    assert added == readers
    assert committed(shop) == everybody()


def test_a_stream_that_was_begun_before_the_call_goes_to_all_the_rest(
    shop: Shop, readers: int
) -> None:
    with shop.session() as session:
        found = stream(shop, session)
        first = next(found)
        assert shop.outbox.enqueue_many(newsletter(), found, session=session) == readers - 1
        session.commit()
    assert committed(shop) == everybody() - {first}


@pytest.mark.usual_driver
@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("use", USES)
def test_within_a_stream_any_other_call_is_refused_and_the_stream_goes_on(
    shop: Shop, readers: int, use: str
) -> None:
    """A statement on the same connection would discard what the caller's loop has not read."""
    with shop.session() as session:
        found = stream(shop, session)
        next(found)
        with pytest.raises(ConfigurationError, match="unread"):
            USES[use](shop, session)
        assert len(list(found)) == readers - 1
        shop.outbox.enqueue(message(), session=session)  # it is usable
        session.commit()
    assert committed(shop) == {"a@customers.example"}


@pytest.mark.long
@pytest.mark.databases("postgresql", "sqlite")
def test_an_enqueue_for_each_row_of_a_stream_writes_all_where_cursors_lie_beside(
    shop: Shop, readers: int
) -> None:
    with shop.session() as session:
        for address in stream(shop, session):
            shop.outbox.enqueue(message(address), session=session)
        session.commit()
    assert committed(shop) == everybody()


@pytest.mark.usual_driver
@pytest.mark.databases("mariadb")
def test_another_engine_is_not_asked_where_it_is_within_a_stream(shop: Shop, readers: int) -> None:
    """The question is a statement, too."""
    engine = sa.create_engine(shop.engine.url)
    with Session(engine) as session:
        found = stream(shop, session)
        next(found)
        with pytest.raises(ConfigurationError, match="unread"):
            shop.outbox.enqueue_many(newsletter(), found, session=session)
        assert len(list(found)) == readers - 1
    engine.dispose()
