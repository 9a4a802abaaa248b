"""What a drain costs the database, counted between driver and server: it must not creep up."""

from __future__ import annotations

from collections import deque

import pytest
from sqlalchemy import make_url

from outbox.store.records import Claim
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.sweep import sweep
from tests.support.servers.databases.round_trips import RoundTrips
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shops, addresses, message

pytestmark = pytest.mark.over_and_over

MAILS = 2000
MOST = 0.1
"""Round trips an email, with the default window and batch."""


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_drain_asks_the_database_at_most_once_for_ten_emails(
    database_url: str, catcher: Catcher
) -> None:
    direct = make_url(database_url)
    assert direct.port is not None
    with RoundTrips(direct.port) as proxy:
        url = direct.set(port=proxy.port).render_as_string(hide_password=False)
        shops = Shops(url=url)
        try:
            shop = shops.open(MAIL_PORT=catcher.port)
            # A batch looks for urgent email four times a second: that is by time, and not by email,
            # so it would be counted where the machine is slow.
            shop.runtime.clock = lambda: 0.0
            with shop.session() as session:
                emails = (message(address) for address in addresses(MAILS))
                shop.outbox.enqueue_many(emails, session=session)
                session.commit()
            before = proxy.count
            claims = deque[Claim]()
            sweep(shop.runtime, claims.append)
            while claims:  # as the tasks do: a sweep after each batch
                send_batch(shop.runtime, claims.popleft().token)
                sweep(shop.runtime, claims.append)
            trips = proxy.count - before
            assert len(catcher.emails) == MAILS
            assert 0 < trips <= MAILS * MOST
        finally:
            shops.close()


@pytest.mark.databases("postgresql")
def test_an_email_that_comes_alone_takes_twelve_trips_and_eight_of_them_before_it_leaves(
    database_url: str, catcher: Catcher
) -> None:
    direct = make_url(database_url)
    assert direct.port is not None
    with RoundTrips(direct.port) as proxy:
        shops = Shops(url=direct.set(port=proxy.port).render_as_string(hide_password=False))
        trips = list[int]()

        def sent() -> None:
            shop.enqueue()
            before, claims = proxy.count, deque[Claim]()
            sweep(shop.runtime, claims.append)
            [made] = claims
            send_batch(shop.runtime, made.token)
            trips.append(proxy.count - before)

        try:
            shop = shops.open(MAIL_PORT=catcher.port)
            shop.runtime.clock = lambda: 0.0
            for _ in range(12):  # the driver prepares a statement when it comes for the sixth time
                sent()
            # Snapshot, count, claim; lease, emails, start; window, content. Then the record, and
            # three for the lease's end.
            assert trips[-1] == 12
            assert len(catcher.emails) == 12
        finally:
            shops.close()
