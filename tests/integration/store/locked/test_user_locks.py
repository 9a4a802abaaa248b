"""A person's transaction that stays open stops no worker: it passes those rows over and goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest
from sqlalchemy.orm import Session

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.schema.clock import utc
from outbox.store.transitions.expire import expire
from outbox.store.transitions.release import give_back_to_lanes, suppress
from outbox.store.transitions.uncharge import uncharge
from outbox.store.transitions.window import finish
from outbox.worker.sweep import sweep
from tests.integration.store.locks import PATIENCE, hold, in_time, no_waiting, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import WORKER, Shop, Shops, addresses, entry, message, sent
from tests.support.shop.steps import purged

pytestmark = pytest.mark.databases("postgresql", "mariadb")

Step = Callable[[Shop, UUID, list[int]], object]


def end(session: Session, commits: bool) -> None:
    if commits:
        session.commit()
    else:
        session.rollback()


def cancelled(shop: Shop, count: int) -> list[int]:
    """Enqueue so many, each with a content of its own, and cancel them; return their ids."""
    with shop.session() as session:
        shop.outbox.enqueue_many([message()] * count, session=session, tag="over")
        assert shop.outbox.cancel(tag="over", session=session) == count
        session.commit()
    return [row.id for row in shop.rows(shop.tables.email, shop.tables.email.c.tag == "over")]


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before its batch starts", "between two windows"])
@pytest.mark.parametrize("commits", [False, True], ids=["rolled back", "committed"])
def test_a_withdrawal_that_is_not_committed_holds_up_one_email_and_not_its_batch(
    shop: Shop, workers: Shops, catcher: Catcher, when: str, commits: bool
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(10)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    with shop.session() as session, no_waiting(motion.shop):

        def withdraw(_: str = "") -> None:
            catcher.reply_to_recipient = lambda _: None
            assert shop.outbox.cancel(id=ids[6], session=session) == 1

        if when == "between two windows":
            catcher.reply_to_recipient = withdraw
        else:
            withdraw()
        in_time(motion.work, session)
        assert [shop.status(i) for i in ids if i != ids[6]] == [Status.SENT] * 9
        assert shop.status(ids[6]) is Status.CLAIMED
        in_time(motion.beat, session)
        assert shop.status(ids[6]) is Status.CLAIMED
        end(session, commits)
    for _ in range(2):  # it is given back, and sent
        motion.beat()
    assert shop.status(ids[6]) is (Status.CANCELLED if commits else Status.SENT)
    assert shop.count(shop.tables.lease) == 0
    assert shop.email_row(ids[6]).crashes == 0
    assert set(catcher.copies().values()) == {1}
    assert shop.rows(shop.tables.counter) == []


STEPS: dict[str, Step] = {
    "open": lambda shop, token, ids: shop.open(token, *ids[4:]),
    "record": lambda shop, token, ids: shop.record(token, [sent(i) for i in ids[:3]], ids[4:6]),
    "finish": lambda shop, token, ids: finish(
        shop.database, token, [sent(i) for i in ids[:3]], worker=WORKER
    ),
    "rescue": lambda shop, token, ids: shop.rescue(),
    "suppress": lambda shop, token, ids: shop.database.run(
        lambda c: suppress(c, shop.database, token, ids[4:])
    ),
    "move": lambda shop, token, ids: give_back_to_lanes(shop.database, token, {"other": ids[4:]}),
    "expire": lambda shop, token, ids: expire(shop.database),
    "claim": lambda shop, token, ids: shop.claim(),
    "sweep": lambda shop, token, ids: sweep(shop.runtime, lambda _: None),
    "purge": lambda shop, token, ids: purged.removed(shop),
}


@pytest.mark.long
@pytest.mark.each_driver
@pytest.mark.parametrize("step", STEPS)
def test_no_step_of_a_worker_or_a_sweep_waits_for_a_row(
    shop: Shop, workers: Shops, step: str
) -> None:
    worker = workers.open()
    ids = [shop.enqueue(address).id for address in addresses(6)]
    made = worker.started()
    worker.open(made.token, *ids[:4])
    soon = utc(shop.email_row(ids[0]).created_at) + timedelta(hours=1)
    waiting = [shop.enqueue(expires_at=soon).id for _ in range(3)]
    over = cancelled(shop, 40)
    if step == "expire":
        worker.later(7200)
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, ids[1], ids[3], ids[4], waiting[1], over[1])
        in_time(lambda: STEPS[step](worker, made.token, ids), session)


@pytest.mark.long
@pytest.mark.parametrize("commits", [False, True], ids=["rolled back", "committed"])
def test_a_result_whose_row_is_locked_is_kept_and_written_when_it_is_free(
    shop: Shop, workers: Shops, catcher: Catcher, commits: bool
) -> None:
    """Whoever locks the row of an email that is being sent gets no doubt for it."""
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    with shop.session() as session, no_waiting(motion.shop):

        def lock(_: str) -> None:
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, ids[1])

        catcher.reply_to_recipient = lock
        in_time(motion.work, session)
        assert [shop.status(i) for i in ids if i != ids[1]] == [Status.SENT] * 5
        motion.shop.rescue()
        assert shop.status(ids[1]) is Status.SENDING
        end(session, commits)
        assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.status(ids[1]) is Status.SENT
    assert shop.count(shop.tables.lease) == 0
    assert (shop.email_row(ids[1]).attempts, shop.email_row(ids[1]).unknown_count) == (1, 0)
    assert set(catcher.copies().values()) == {1}
    assert shop.rows(shop.tables.counter) == []


@pytest.mark.long
def test_recipients_of_whom_one_window_could_not_be_recorded_wait_for_another_batch(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    """Whoever has the email is written down before the others are written to."""
    email = shop.enqueue("a@x.example", "b@x.example")
    motion = swept(workers, catcher)
    with shop.session() as session, no_waiting(motion.shop):

        def one_at_a_time(address: str) -> str | None:
            if address == "a@x.example":
                return None
            catcher.reply_to_recipient = lambda _: None
            hold(shop, session, email.id)
            return "452 4.5.3 too many recipients"

        catcher.reply_to_recipient = one_at_a_time
        in_time(motion.work, session)
        assert [mail.recipients for mail in catcher.emails] == [("a@x.example",)]
        session.rollback()
        assert motion.shop.runtime.unrecorded.wait(PATIENCE)
    assert shop.recipients(email.id) == {"a@x.example": "sent", "b@x.example": "pending"}
    assert shop.status(email.id) is Status.PENDING
    motion.beat()
    assert [mail.recipients for mail in catcher.emails] == [("a@x.example",), ("b@x.example",)]
    assert shop.status(email.id) is Status.SENT


@pytest.mark.long
def test_a_purge_waits_for_no_enqueue_that_uses_a_content_again(shop: Shop, workers: Shops) -> None:
    worker, large = workers.open(), message(text="A large text. " * 10_000)
    with shop.session() as session:
        for _ in range(2):
            shop.outbox.enqueue(large, session=session, tag="large")
        assert shop.outbox.cancel(tag="large", session=session) == 2
        session.commit()
    cancelled(shop, 40)
    with shop.session() as session, no_waiting(worker):
        email = shop.outbox.enqueue(large, session=session)
        assert in_time(lambda: purged.removed(worker), session) == 40
        session.commit()
    assert purged.removed(worker) == 2
    assert b"A large text." in (shop.outbox.source(email.id) or b"")


def test_a_refusal_is_taken_back_from_whatever_email_is_free(shop: Shop, workers: Shops) -> None:
    worker = workers.open()
    locked, free = (shop.enqueue(address).id for address in addresses(2))
    made = worker.started()
    worker.open(made.token, locked, free)
    blocked = Reply(code=554, enhanced="5.7.1", text="Client host [192.0.2.1] blocked using zen")
    end = Outcome(status=Status.FAILED, reply=blocked, attempts_added=1)
    refused = [entry(i, end, Verdict.FAIL, phase=Phase.RCPT) for i in (locked, free)]
    worker.record(made.token, refused)
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, locked)
        refusal = fingerprint(Phase.RCPT, blocked) or ""
        back = partial(uncharge, worker.database, "mx.example:25", refusal, lifetime=1e6)
        assert in_time(back, session) == 1
    assert (shop.status(locked), shop.status(free)) == (Status.FAILED, Status.PENDING)
