"""A task keeps a result itself, whose row a person holds, if no thread can be started for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from outbox import Status
from outbox.worker.process import shutdown, unrecorded
from tests.integration.store.locks import PATIENCE, hold, no_waiting, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture(autouse=True)
def _no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no thread keep a result. This is a double: Linux holds no root to a limit of them."""
    start = threading.Thread.start

    def start_or_raise(self: threading.Thread) -> None:
        if self.name == "outbox-unrecorded":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_or_raise)


@pytest.fixture
def email(shop: Shop) -> int:
    return shop.enqueue().id


@pytest.fixture
def motion(email: int, workers: Shops, catcher: Catcher) -> Motion:
    return swept(workers, catcher)


Waiting = Callable[[], bool]


@contextmanager
def locked(
    shop: Shop, motion: Motion, catcher: Catcher, email: int, told: Waiting
) -> Iterator[Future[bool]]:
    """Send the email in another thread; its row is locked until the end of the block."""
    with shop.session() as session, ThreadPoolExecutor(1) as pool, no_waiting(motion.shop):

        def lock(_: str) -> None:
            hold(shop, session, email)

        catcher.reply_to_recipient = lock
        working = pool.submit(motion.work)
        try:
            wait_until(lambda: working.done() or told(), PATIENCE, "the result to wait")
            yield working
        finally:
            session.rollback()
        working.result(PATIENCE)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Waiting:
    caplog.set_level(logging.INFO, "outbox")
    return lambda: "1 result waits" in caplog.text


@pytest.mark.long
def test_it_is_written_when_the_row_is_free(
    shop: Shop, motion: Motion, catcher: Catcher, email: int, told: Waiting
) -> None:
    with locked(shop, motion, catcher, email, told):
        assert shop.status(email) is Status.SENDING
    assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    assert (shop.status(email), shop.email_row(email).unknown_count) == (Status.SENT, 0)
    assert shop.count(shop.tables.lease) == 0
    assert set(catcher.copies().values()) == {1}


def test_a_task_that_is_to_stop_keeps_it_for_its_grace_and_no_longer(
    shop: Shop,
    motion: Motion,
    catcher: Catcher,
    email: int,
    told: Waiting,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with locked(shop, motion, catcher, email, told) as working:
        monkeypatch.setattr(unrecorded, "GRACE", 0.0)
        monkeypatch.setattr(shutdown, "requested", lambda: True)
        working.result(PATIENCE)
        assert shop.status(email) is Status.SENDING
