"""A person holds the row of an email that is given back behind a slow one: it comes to no doubt."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from outbox import Status
from outbox.smtp import reply_reader
from outbox.store.transitions import release
from outbox.worker.batch import todo
from outbox.worker.batch.watch.server_watch import Watch
from tests.integration.store.locks import PATIENCE, hold, in_time, no_waiting, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.shop.steps.motion import Motion
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.5)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)
    # A double: the slow email gets its reply, however long the test takes to let it go.
    monkeypatch.setattr(Watch, "gives_up", lambda *_: False)


def failing(*_: object) -> None:
    raise RuntimeError


def failing_work(motion: Motion) -> None:
    with suppress(RuntimeError):
        motion.work()


@pytest.mark.long
def test_it_is_given_back_when_its_row_is_free_also_after_an_error(
    shop: Shop, workers: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    with shop.session() as session, no_waiting(motion.shop):

        def slowly(_: str) -> None:
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, ids[2])
            wait_until(lambda: shop.status(ids[1]) is Status.PENDING, PATIENCE, "relief")

        catcher.reply_to_recipient = slowly
        with monkeypatch.context() as patch:
            patch.setattr(Watch, "note", failing)  # a double: only what comes of it is tested
            in_time(lambda: failing_work(motion), session)
        assert shop.status(ids[2]) is Status.SENDING
        session.rollback()
        assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    assert [shop.status(i) for i in ids] == [Status.SENT] + [Status.PENDING] * 5
    motion.beat()
    assert [shop.status(i) for i in ids] == [Status.SENT] * 6
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.lease) == 0
    assert shop.rows(shop.tables.counter) == []


@pytest.mark.long
def test_one_that_waits_for_a_window_is_given_back_as_well_when_its_row_is_free(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=1, OUTBOX_SLOTS=1)
    before_the_reply: list[Status] = []
    with shop.session() as session, no_waiting(motion.shop):

        def slowly(_: str) -> None:
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, ids[2])
            wait_until(lambda: shop.status(ids[1]) is Status.PENDING, PATIENCE, "relief")
            before_the_reply.append(shop.status(ids[2]))
            session.rollback()
            wait_until(lambda: shop.status(ids[2]) is Status.PENDING, PATIENCE, "the next look")
            before_the_reply.append(shop.status(ids[0]))

        catcher.reply_to_recipient = slowly
        in_time(motion.work, session)
    assert before_the_reply == [Status.CLAIMED, Status.SENDING]
    assert [shop.status(i) for i in ids] == [Status.SENT] + [Status.PENDING] * 5
    motion.beat()
    assert [shop.status(i) for i in ids] == [Status.SENT] * 6
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.lease) == 0


@pytest.mark.long
def test_what_an_outage_keeps_from_being_given_back_is_given_back_at_the_next_look(
    shop: Shop, workers: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the reply to the slow email, which may take minutes."""
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    give_back, failures = release.give_back_claimed, [RuntimeError("the database is away")]

    def fail_once(*given: Any, **named: Any) -> None:
        if failures:
            raise failures.pop()
        give_back(*given, **named)

    def slowly(_: str) -> None:
        catcher.reply_to_recipient = lambda _: None
        wait_until(lambda: shop.statuses() == ["sending"] + ["pending"] * 5, PATIENCE, "relief")

    catcher.reply_to_recipient = slowly
    monkeypatch.setattr(release, "give_back_claimed", fail_once)
    motion.work()
    assert not failures
    assert shop.status(ids[0]) is Status.SENT
    motion.beat()
    assert [shop.status(i) for i in ids] == [Status.SENT] * 6
    assert set(catcher.copies().values()) == {1}
    assert shop.rows(shop.tables.counter) == []
