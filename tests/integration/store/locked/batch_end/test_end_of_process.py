"""A process that ends of itself gives no known result up because a person holds its row."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from celery.signals import worker_process_shutdown
from sqlalchemy.orm import Session

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.worker.drain import drain
from outbox.worker.process import kept_threads
from outbox.worker.process.runtime import RECYCLED
from tests.integration.store.locks import PATIENCE, hold
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, entry, sent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")

End = Callable[[], object]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_threads, "LOOK", 0.05)
    monkeypatch.setattr(kept_threads, "GRACE", 0.0)


def end_beside_a_lock(shop: Shop, person: Session, end: End, *, waits: bool) -> None:
    """End this shop's process while a person holds a row; see whether it waits for that."""
    looks, wait = list[float](), shop.runtime.unrecorded.wait

    def look(seconds: float) -> bool:
        looks.append(seconds)
        return wait(seconds)

    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop.runtime.unrecorded, "wait", look)
        ending = pool.submit(end)
        try:
            if waits:
                wait_until(lambda: ending.done() or len(looks) > 20, PATIENCE, "several looks")
                assert not ending.done()
            else:
                ending.result(PATIENCE)
        finally:
            person.rollback()
        ending.result(PATIENCE)


@pytest.mark.parametrize(
    ("exitcode", "waits"), [(RECYCLED, True), (0, False)], ids=["had its tasks", "is to end"]
)
def test_a_process_of_the_pool(
    shop: Shop, exitcode: int, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    email = shop.enqueue().id
    token = shop.sending(email).token
    with shop.session() as person:
        hold(shop, person, email)
        shop.runtime.unrecorded.keep(token, [sent(email)])
        end = lambda: worker_process_shutdown.send(sender=None, exitcode=exitcode)  # noqa: E731
        end_beside_a_lock(shop, person, end, waits=waits)
    assert ("ends, and 1 result is not recorded" in caplog.text) is not waits
    assert shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.status(email) is Status.SENT


@pytest.mark.parametrize(
    ("has_reply", "told"), [(True, "1 result is"), (False, "the end of a batch is")]
)
def test_the_last_line_counts_a_late_reply_too_and_no_result_where_there_is_none(
    shop: Shop, caplog: pytest.LogCaptureFixture, has_reply: bool, told: str
) -> None:
    is_over = Event()
    late, unended = shop.runtime.late_replies, shop.runtime.unended
    with pytest.MonkeyPatch.context() as patch:
        if has_reply:
            patch.setattr(late, "wait", lambda _: late.count == 0)
            assert late.start(is_over.wait)
        else:
            patch.setattr(unended, "wait", lambda _: False)
        shop.runtime.wait_for_writes()
        is_over.set()
    assert f"ends, and {told} not recorded" in caplog.text


def test_the_last_line_tells_results_from_emails_that_were_not_sent(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """A window that did not open leaves as many results of emails that nobody has sent."""
    first, second = (shop.enqueue(address).id for address in addresses(2))
    token = shop.sending(first).token
    unsent = entry(second, Outcome(status=Status.PENDING, reply=Reply(code=0)), Verdict.HALT)
    with shop.session() as person:
        hold(shop, person, first)
        hold(shop, person, second)
        shop.runtime.unrecorded.keep(token, [sent(first), unsent])
        shop.runtime.wait_for_writes()
        person.rollback()
    told = "ends, and 1 result is not recorded, and 1 unsent email is not given back"
    assert told in caplog.text
    assert shop.runtime.unrecorded.wait(PATIENCE)


@pytest.mark.long
@pytest.mark.parametrize("is_command", [True, False], ids=["the command", "in a process"])
def test_a_drain(shop: Shop, workers: Shops, catcher: Catcher, is_command: bool) -> None:
    email = shop.enqueue().id
    worker = workers.open(MAIL_PORT=catcher.port)
    with shop.session() as person:

        def lock(_: str) -> None:
            catcher.reply_to_recipient = lambda _: None
            hold(shop, person, email)

        catcher.reply_to_recipient = lock
        end = lambda: drain(worker.runtime, is_command=is_command)  # noqa: E731
        end_beside_a_lock(worker, person, end, waits=is_command)
    assert worker.runtime.unrecorded.wait(PATIENCE)
    assert shop.status(email) is Status.SENT


def test_a_drain_that_is_broken_off_by_hand_waits_no_longer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("outbox.worker.drain.sweep", press)
    email = shop.enqueue().id
    token = shop.sending(email).token
    with shop.session() as person:
        hold(shop, person, email)
        shop.runtime.unrecorded.keep(token, [sent(email)])

        def end() -> None:
            with pytest.raises(KeyboardInterrupt):
                drain(shop.runtime, is_command=True)

        end_beside_a_lock(shop, person, end, waits=False)
