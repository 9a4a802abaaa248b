"""An error ends a batch while a person holds the row of an email that it sent: no doubt is left."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from outbox import Status
from outbox.smtp.connection import Connection
from outbox.store.records import ClaimedEmail, WriteResult
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.window import record_last
from outbox.worker.batch.next_window import NextWindow
from outbox.worker.drain import drain
from outbox.worker.process import unrecorded
from outbox.worker.process.runtime import Runtime
from tests.integration.store.locks import PATIENCE, hold, in_time, no_waiting, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import LEASE, WORKER, Shop, Shops, addresses, sent
from tests.support.shop.steps.motion import Motion
from tests.support.shop.steps.raising import raise_when

pytestmark = pytest.mark.databases("postgresql", "mariadb")

ERRORS = SystemExit, SoftTimeLimitExceeded, RuntimeError


def failing_work(motion: Motion) -> None:
    with suppress(*ERRORS):
        motion.work()
        pytest.fail("no error ended the batch")


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", ["an email", "a window", "the end"])
def test_what_was_sent_is_recorded_when_its_row_is_free(
    shop: Shop,
    workers: Shops,
    catcher: Catcher,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    at: str,
) -> None:
    readers = addresses(6)
    ids = [shop.enqueue(address).id for address in readers]
    motion = swept(workers, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    cut, write, is_free, was_tried = NextWindow.cut, record_last, Event(), Event()

    def write_later(*given: Any, **options: Any) -> WriteResult:
        if was_tried.is_set():  # the two looks of the rescue come first
            assert is_free.wait(PATIENCE)
        try:
            return write(*given, **options)
        finally:
            was_tried.set()

    monkeypatch.setattr(unrecorded, "record_last", write_later)

    def fail(self: NextWindow, left: deque[ClaimedEmail], **options: Any) -> Any:
        if len(left) == 2:
            raise error
        return cut(self, left, **options)

    def fail_at_rest(_: Connection) -> None:
        raise error

    # Doubles: nothing makes this process raise just there, and Celery's time limit may.
    if at == "an email":
        raise_when(monkeypatch, lambda envelope: readers[3] in envelope.recipients, error)
    elif at == "a window":
        monkeypatch.setattr(NextWindow, "cut", fail)
    else:
        monkeypatch.setattr(Connection, "rest", fail_at_rest)
    with shop.session() as session, no_waiting(motion.shop):

        def lock(_: str) -> None:
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, ids[1])

        catcher.reply_to_recipient = lock
        in_time(lambda: failing_work(motion), session)
        assert was_tried.wait(PATIENCE)  # a try puts the rescue off
        monkeypatch.undo()
        motion.shop.rescue()
        assert shop.status(ids[1]) is Status.SENDING
        session.rollback()
        is_free.set()
        assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.status(ids[1]) is Status.SENT
    for _ in range(3):
        motion.shop.later(60)
        motion.beat()
    assert [shop.status(i) for i in ids] == [Status.SENT] * 6
    assert (shop.email_row(ids[1]).attempts, shop.email_row(ids[1]).unknown_count) == (1, 0)
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.lease) == 0
    assert shop.rows(shop.tables.counter) == []


def test_a_drain_that_an_error_ends_waits_for_what_is_not_recorded(
    shop: Shop, workers: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may end right after it."""
    shop.enqueue()
    worker, waited = workers.open(MAIL_PORT=catcher.port), []
    raise_when(monkeypatch, lambda _: True, SystemExit)
    monkeypatch.setattr(Runtime, "wait_for_writes", lambda *_, **__: waited.append(True))
    with pytest.raises(SystemExit):
        drain(worker.runtime)
    assert waited


def test_no_rescue_overtakes_a_result_that_is_tried_again(shop: Shop) -> None:
    """The row may come free just before a sweep, which would take the email for one in doubt."""
    email = shop.enqueue()
    made, database = shop.sending(email.id), shop.database
    results = [sent(email.id)]

    def sweep() -> int:
        shop.later(LEASE + 1)
        return rescue(database, shop.runtime.settings, random=lambda: 0.5).emails

    with shop.session() as session:
        hold(shop, session, email.id)
        assert sweep() == 0
        assert record_last(database, made.token, results, worker=WORKER).locked == {email.id}
        session.rollback()
    assert sweep() == 0
    assert not record_last(database, made.token, results, worker=WORKER).locked
    assert (shop.status(email.id), shop.email_row(email.id).unknown_count) == (Status.SENT, 0)
    assert shop.count(shop.tables.lease) == 0
