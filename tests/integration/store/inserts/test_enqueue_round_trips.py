"""What an enqueue asks of PostgreSQL, counted between driver and server: it must not creep up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import make_url
from sqlalchemy.orm import Session

from tests.support.servers.databases.round_trips import RoundTrips
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.databases("postgresql")

MANY = 2000


@dataclass(frozen=True)
class Counted:
    shop: Shop
    proxy: RoundTrips

    def trips(self, work: Callable[[Session], object]) -> int:
        """Return the round trips of a transaction that does this, BEGIN and COMMIT included."""
        with self.shop.session() as session:
            session.connection()  # a new one would have to log in
            session.rollback()
            before = self.proxy.count
            work(session)
            session.commit()
        return self.proxy.count - before


@pytest.fixture
def counted(database_url: str) -> Iterator[Counted]:
    direct = make_url(database_url)
    assert direct.port is not None
    with RoundTrips(direct.port) as proxy:
        shops = Shops(url=direct.set(port=proxy.port).render_as_string(hide_password=False))
        try:
            yield Counted(shops.open(), proxy)
        finally:
            shops.close()


def test_an_email_beside_a_business_row_is_one_round_trip_more(counted: Counted) -> None:
    shop = counted.shop

    def row(session: Session) -> None:
        shop.order(session, "Ada")

    def row_and_mail(session: Session) -> None:
        shop.order(session, "Bob")
        shop.outbox.enqueue(message(), session=session)

    assert counted.trips(row_and_mail) == counted.trips(row) + 1 == 4


def test_an_email_with_a_key_is_four(counted: Counted) -> None:
    """A look for the key, and a savepoint around the statement: a rival may take it meanwhile."""

    def keyed(session: Session) -> None:
        counted.shop.outbox.enqueue(message(), session=session, key="order-1")

    assert counted.trips(keyed) == 2 + 4


def test_a_newsletter_asks_less_than_once_for_a_hundred_readers(counted: Counted) -> None:
    def run(session: Session) -> None:
        counted.shop.outbox.enqueue_many(newsletter(), addresses(MANY), session=session)

    assert 0 < counted.trips(run) < MANY / 100


@pytest.mark.over_and_over
@pytest.mark.long
def test_different_emails_ask_less_than_once_for_a_hundred(counted: Counted) -> None:
    def run(session: Session) -> None:
        emails = (message(address) for address in addresses(MANY))
        counted.shop.outbox.enqueue_many(emails, session=session)

    assert 0 < counted.trips(run) < MANY / 100


def test_a_message_to_several_is_one_round_trip_too(counted: Counted) -> None:
    def run(session: Session) -> None:
        several = message("a@x.example", "b@x.example", "c@x.example")
        counted.shop.outbox.enqueue(several, session=session)

    assert counted.trips(run) == 2 + 1
