"""MariaDB: a report reads the outbox's tables into another one, and its transaction stays open.

Under REPEATABLE READ, the default, it locks what it reads, and the gaps: each insert waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from outbox import Status
from tests.integration.store.locks import no_waiting
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("mariadb")

TABLES = ("outbox_email", "outbox_attempt")


@contextmanager
def report(shop: Shop, table: str, isolation: str) -> Iterator[None]:
    with shop.engine.connect() as connection:
        connection.execution_options(isolation_level=isolation)
        with connection.begin() as transaction:
            connection.exec_driver_sql(f"CREATE TEMPORARY TABLE report AS SELECT * FROM {table}")
            yield
            transaction.rollback()
        connection.exec_driver_sql("DROP TEMPORARY TABLE report")


@pytest.fixture
def motion(workers: Shops, catcher: Catcher) -> Motion:
    """Workers whose connections wait two seconds for a lock; they have sent an email."""
    motion = Motion(shop=workers.open(MAIL_PORT=catcher.port))
    motion.shop.enqueue("first@x.example")
    motion.beat()
    return motion


@pytest.mark.parametrize("table", TABLES)
def test_under_read_committed_it_holds_up_nobody(table: str, shop: Shop, motion: Motion) -> None:
    with report(shop, table, "READ COMMITTED"), no_waiting(motion.shop):
        motion.shop.enqueue("second@x.example")
        motion.beat()
        assert shop.statuses() == [Status.SENT] * 2


@pytest.mark.long
@pytest.mark.parametrize("table", ["outbox_email", "outbox_content"])
def test_under_the_default_each_enqueue_waits_for_it(
    table: str, shop: Shop, motion: Motion
) -> None:
    waits = pytest.raises(OperationalError, match="1205")
    with report(shop, table, "REPEATABLE READ"), waits:
        motion.shop.enqueue("second@x.example")
    motion.shop.enqueue("second@x.example")


def test_under_the_default_the_emails_that_it_has_read_are_not_claimed(
    shop: Shop, motion: Motion
) -> None:
    motion.shop.enqueue("second@x.example")
    with report(shop, "outbox_email", "REPEATABLE READ"), no_waiting(motion.shop):
        assert motion.sweep() == []
    assert len(motion.sweep()) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "status"), [("outbox_lease", Status.PENDING), ("outbox_attempt", Status.SENDING)]
)
def test_under_the_default_workers_wait_for_it_and_the_log_says_so_once_a_minute(
    table: str,
    status: Status,
    shop: Shop,
    motion: Motion,
    catcher: Catcher,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[object] = []
    sa.event.listen(motion.shop.engine, "handle_error", tries.append)
    motion.shop.enqueue("second@x.example")
    with ThreadPoolExecutor(1) as pool:
        with report(shop, table, "REPEATABLE READ"):
            done = pool.submit(motion.beat)
            wait_until(lambda: len(tries) >= 2, 30, "a second wait for the lock")
            assert shop.statuses() == [Status.SENT, status]
        done.result()
    assert shop.statuses() == [Status.SENT] * 2
    assert set(catcher.copies().values()) == {1}
    told = "another transaction has kept a write waiting for"
    [line] = [one for one in caplog.records if told in one.getMessage()]
    assert line.levelname == "WARNING"
    seconds = line.getMessage().partition(f"{told} ")[2].partition(" s")[0]
    assert int(seconds) >= 2, "the server's own time-out in this test"
