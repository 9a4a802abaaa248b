"""More batches than connections, and a database that stands still: results wait in their hands."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from outbox.worker.batch.send_batch import send_batch
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.waiting import wait_until

BATCHES, MAILS = 6, 4
CONNECTIONS, POOL_TIMEOUT = 2, 1.0
PATIENCE = 60.0

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    engine = sa.create_engine(
        shops.url, pool_size=CONNECTIONS, max_overflow=0, pool_timeout=POOL_TIMEOUT
    )
    return shops.open_on(
        engine,
        MAIL_PORT=catcher.port,
        OUTBOX_SLOTS=BATCHES,
        OUTBOX_BATCH=MAILS,
        OUTBOX_WINDOW=2,
    )


@pytest.fixture
def frozen(postgres: Postgres) -> Iterator[Postgres]:
    """The tests' PostgreSQL, which a test may freeze."""
    yield postgres
    postgres.thaw()


@pytest.mark.long
def test_what_was_sent_while_no_connection_was_to_be_had_is_recorded_once(
    shop: Shop, catcher: Catcher, frozen: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    for address in addresses(BATCHES * MAILS):
        shop.enqueue(address)
    tokens = [made.token for _ in range(BATCHES) for made in shop.claim(MAILS)]
    on_the_wire = catcher.hold_at("reply")
    with ThreadPoolExecutor(BATCHES) as pool:
        work = [pool.submit(send_batch, shop.runtime, token) for token in tokens]
        try:
            wait_until(lambda: on_the_wire.reached == BATCHES, PATIENCE, "an email of each batch")
            frozen.freeze()
            on_the_wire.open()
            wait_until(
                lambda: (
                    any(task.done() for task in work)
                    or caplog.text.count("(TimeoutError)") >= BATCHES - CONNECTIONS
                ),
                PATIENCE,
                "those without a connection to see that",
            )
        finally:
            on_the_wire.open()
            frozen.thaw()
        assert all(task.result(PATIENCE) for task in work)
    ends = {
        (m.status, m.attempts, m.crashes, m.unknown_count) for m in shop.rows(shop.tables.email)
    }
    assert ends == {("sent", 1, 0, 0)}
    assert set(catcher.copies().values()) == {1}
    assert len(catcher.copies()) == BATCHES * MAILS


def test_tasks_that_share_a_connection_wait_for_it_in_turn_and_never_in_vain(shops: Shops) -> None:
    """The pool's own time-out is over at once: without the turns all but one would fail by it."""
    engine = sa.create_engine(shops.url, pool_size=1, max_overflow=0, pool_timeout=0.001)
    database = shops.open_on(engine).runtime.database
    database.share(4)
    turns = database._turns
    assert turns is not None
    asked, goes_on = threading.Event(), threading.Event()

    def hold(connection: sa.Connection) -> int:
        asked.set()
        assert goes_on.wait(PATIENCE)
        return int(connection.execute(sa.text("SELECT 1")).scalar_one())

    def ask(connection: sa.Connection) -> int:
        return int(connection.execute(sa.text("SELECT 2")).scalar_one())

    with ThreadPoolExecutor(BATCHES) as pool:
        try:
            first = pool.submit(database.run, hold)
            assert asked.wait(PATIENCE)
            others = [pool.submit(way, ask) for way in (database.run, database.read) * 2]
            statement = "SELECT 2"
            others.append(pool.submit(lambda: database.run_alone(statement, {})[0][0]))
            wait_until(lambda: len(turns._waiting) == len(others), PATIENCE, "the others to wait")
        finally:
            goes_on.set()
        assert first.result(PATIENCE) == 1
        assert [other.result(PATIENCE) for other in others] == [2] * len(others)
