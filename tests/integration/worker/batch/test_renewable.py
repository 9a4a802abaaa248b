"""A process that can start no thread renews no lease: it starts no batch, and charges nobody."""

from __future__ import annotations

import threading

import pytest

from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from outbox.worker.process import renewable
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, addresses
from tests.support.shop.steps.motion import Motion

pytestmark = pytest.mark.each_database

EMAILS = 3


def refuse(monkeypatch: pytest.MonkeyPatch, tries: float) -> None:
    """Have so many starts of the thread fail.

    This is a double: Linux holds no root to a limit of processes, and tests may run as root.
    """
    start, left = threading.Thread.start, [tries]

    def start_or_raise(self: threading.Thread) -> None:
        if self.name == "outbox-leases" and left[0] > 0:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_or_raise)
    monkeypatch.setattr(renewable, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(renewable, "PATIENCE", 0.01)


@pytest.fixture
def shop(sending: Shop) -> Shop:
    for address in addresses(EMAILS):
        sending.enqueue(address)
    return sending


def test_its_batch_goes_back_uncharged_with_the_next_sweep(
    shop: Shop, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    motion = Motion(shop=shop)
    motion.sweep()
    refuse(monkeypatch, float("inf"))
    assert not motion.work(), "the next sweep would bring it the same batch"
    motion.sweep()
    assert shop.statuses() == ["pending"] * EMAILS
    assert {row.crashes for row in shop.rows(shop.tables.email)} == {0}
    assert shop.rows(shop.tables.lease) == []
    monkeypatch.undo()
    drain(shop.runtime)
    assert shop.statuses() == ["sent"] * EMAILS
    assert set(catcher.copies().values()) == {1}


def test_it_sends_its_batch_if_there_is_a_thread_soon(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, 3)
    (made,) = shop.claim()
    assert send_batch(shop.runtime, made.token)[:2] == (BatchEnd.DONE, EMAILS)
    assert shop.statuses() == ["sent"] * EMAILS


def test_it_takes_no_batch_from_a_task_that_has_started_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop.started()
    before = shop.rows(shop.tables.lease)
    refuse(monkeypatch, float("inf"))
    assert send_batch(shop.runtime, made.token).end is BatchEnd.NO_THREAD
    assert shop.rows(shop.tables.lease) == before
    assert shop.statuses() == ["claimed"] * EMAILS
