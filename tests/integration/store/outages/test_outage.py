"""The database goes away while emails are on the wire: what was sent is recorded afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from outbox.worker.drain import drain
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.waiting import wait_until

PATIENCE = 60.0


def drain_through_an_outage(shop: Shop, server: Postgres, caplog: pytest.LogCaptureFixture) -> None:
    """Drain while the database dies, and start it once the drain has noticed."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(drain, shop.runtime)
        wait_until(
            lambda: working.done() or "is asked again" in caplog.text, PATIENCE, "the outage"
        )
        server.start()
        working.result(PATIENCE)


@pytest.mark.long
def test_a_window_whose_contents_cannot_be_read_is_recorded_after_the_outage(
    catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    with Postgres() as server, closing(Shops(url=server.new_database())) as shops:
        size = max(shops.open().enqueue(address).size for address in addresses(6))
        # Windows of two emails, contents of three: the fourth is read in the middle of a window.
        shop = shops.open(
            MAIL_PORT=catcher.port,
            OUTBOX_WINDOW=2,
            OUTBOX_WINDOW_BYTES=3 * size + 10,
            OUTBOX_SLOTS=1,
        )

        def die(_: CaughtMail) -> None:
            if len(catcher.emails) == 2:  # and this is the third
                server.kill_9()

        catcher.reply_to_content = die
        drain_through_an_outage(shop, server, caplog)
        rows = shop.rows(shop.tables.email)
    assert {(row.status, row.attempts, row.unknown_count) for row in rows} == {("sent", 1, 0)}
    assert set(catcher.copies().values()) == {1}
    assert len(catcher.copies()) == 6


@pytest.mark.long
def test_a_window_that_meets_two_outages_is_recorded_after_them(
    catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    """The SMTP server says 421 just when the database is gone: the breaker can wait."""
    with Postgres() as server, closing(Shops(url=server.new_database())) as shops:
        shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_SLOTS=1)
        for address in addresses(4):
            shop.enqueue(address)

        def die(_: CaughtMail) -> str | None:
            if len(catcher.emails) < 2:
                return None
            if server.running:
                server.kill_9()
            return "421 4.3.2 closing"

        catcher.reply_to_content = die
        drain_through_an_outage(shop, server, caplog)
        rows = shop.rows(shop.tables.email)
        halted = shop.count(shop.tables.breaker)
    assert [row.status for row in rows] == ["sent", "sent", "pending", "pending"]
    assert {(row.crashes, row.unknown_count) for row in rows} == {(0, 0)}
    assert halted == 1
