"""The server ends connections and transactions, and the outbox goes on over each driver."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops, addresses

pytestmark = [pytest.mark.databases("postgresql", "mariadb"), pytest.mark.each_driver]

MAILS, WINDOW = 12, 4
PATIENCE = 60.0

CONNECTIONS = {
    "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mariadb": "SELECT concat('KILL ', id) FROM information_schema.processlist"
    " WHERE db = database() AND id <> connection_id()",
}


def cut(url: str) -> None:
    """End each connection to this database but the one that asks for it."""
    engine = sa.create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for (found,) in connection.exec_driver_sql(CONNECTIONS[engine.dialect.name]).all():
            if isinstance(found, str):
                with suppress(DBAPIError):  # it ended by itself meanwhile
                    connection.exec_driver_sql(found)


@pytest.mark.long
def test_a_window_is_recorded_over_a_new_connection(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=WINDOW, OUTBOX_SLOTS=1)
    for address in addresses(MAILS):
        shop.enqueue(address)
    cuts = list[int]()

    def end_all(_: CaughtMail) -> None:
        if len(catcher.emails) == WINDOW + 1 and not cuts:  # in the midst of the second window
            cuts.append(1)
            cut(shops.url)

    catcher.reply_to_content = end_all
    with ThreadPoolExecutor(1) as pool:
        working: Future[int] = pool.submit(drain, shop.runtime)
        working.result(PATIENCE)
    assert cuts == [1]
    assert ends(shop) == {("sent", 1, 0, 0)}
    assert sorted(catcher.copies().values()) == [1] * MAILS


def ends(shop: Shop) -> set[tuple[object, ...]]:
    return {
        (m.status, m.attempts, m.crashes, m.unknown_count) for m in shop.rows(shop.tables.email)
    }


def test_a_deadlock_is_repeated_until_both_transactions_are_done(shop: Shop) -> None:
    """Each takes one email first and the other's then: one of the two is the database's victim."""
    first, second = (shop.enqueue(address).id for address in addresses(2))
    email, runs = shop.tables.email, list[tuple[int, int]]()
    both_hold_one = Barrier(2, timeout=PATIENCE)

    def work(connection: sa.Connection, ids: tuple[int, int]) -> None:
        runs.append(ids)
        for place, email_id in enumerate(ids):
            connection.execute(sa.update(email).where(email.c.id == email_id).values(tag="moved"))
            if place == 0 and runs.count(ids) == 1:
                both_hold_one.wait()

    with ThreadPoolExecutor(2) as pool:
        orders = [(first, second), (second, first)]
        done = [pool.submit(shop.database.run, lambda c, ids=ids: work(c, ids)) for ids in orders]
        for one in done:
            one.result(PATIENCE)
    assert len(runs) > 2, "nobody was a victim"
    assert [row.tag for row in shop.rows(email)] == ["moved", "moved"]
