"""Windows and leases on the wire: what is in doubt is bounded, and a lost lease sends nothing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.transitions.window import LOST
from outbox.worker.batch.batch_end import BatchEnd, BatchReport
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import LEASE, Shop, Shops, addresses, entry
from tests.support.shop.watching.holders import holders
from tests.support.waiting import wait_until

pytestmark = pytest.mark.each_database

PATIENCE = 60.0


def stopped_clock(shop: Shop) -> list[float]:
    """Stop the worker's own clock; return a list of its one time, which the test may change."""
    now = [0.0]
    shop.runtime.clock = lambda: now[0]
    return now


@pytest.mark.long
def test_at_most_one_window_of_emails_is_ever_in_doubt(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1, OUTBOX_BATCH=10)
    for address in addresses(20):
        shop.enqueue(address)
    most: list[int] = []

    def look(_: str) -> None:
        rows = shop.statuses()
        most.append(rows.count("sending"))
        assert rows.count("sending") + rows.count("claimed") <= 10

    catcher.reply_to_recipient = look
    assert drain(shop.runtime) == 20
    assert max(most) == 3
    assert len(most) == 20


def test_a_window_is_bounded_in_bytes(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW_BYTES=1)
    for address in addresses(4):
        shop.enqueue(address)
    most: list[int] = []
    catcher.reply_to_recipient = lambda _: most.append(shop.statuses().count("sending"))
    drain(shop.runtime)
    assert most == [1, 1, 1, 1]


def test_a_batch_that_takes_too_long_gives_the_rest_back(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)
    for address in addresses(6):
        shop.enqueue(address)
    now = stopped_clock(shop)
    # With its content: the next email's commands may be read before this one's reply is.
    catcher.reply_to_content = lambda _: now.__setitem__(0, now[0] + 8.0)
    (made,) = shop.claim()
    assert made.emails == 6
    report = send_batch(shop.runtime, made.token)
    done = (report, now, len(catcher.emails))
    assert done == (BatchReport(BatchEnd.TIME_UP, settled=2, sent=2), [16.0], 2), holders(shop)
    assert shop.statuses() == ["sent"] * 2 + ["pending"] * 4, holders(shop)
    assert shop.count(shop.tables.lease) == 0, holders(shop)


def test_a_lease_that_is_lost_in_the_middle_sends_nothing_more(
    sending: Shop, catcher: Catcher
) -> None:
    """The worker slept: its own clock says so before the database does."""
    for address in addresses(6):
        sending.enqueue(address)
    now = stopped_clock(sending)
    seen: list[str] = []

    def linger(address: str) -> None:
        seen.append(address)
        if len(seen) == 3:
            now[0] += LEASE + 1

    catcher.reply_to_recipient = linger
    (made,) = sending.claim()
    send_batch(sending.runtime, made.token)
    assert len(catcher.emails) == 2
    assert sending.statuses() == ["sent"] * 2 + ["pending"] * 4
    assert {row.attempts for row in sending.rows(sending.tables.email)[2:]} == {0}
    assert sending.count(sending.tables.breaker) == 0


def test_a_worker_that_slept_through_its_rescue_sends_and_changes_nothing(
    sending: Shop, catcher: Catcher
) -> None:
    for address in addresses(4):
        sending.enqueue(address)
    now = stopped_clock(sending)
    gate = catcher.hold_at("recipient")
    (made,) = sending.claim()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(send_batch, sending.runtime, made.token)
        wait_until(lambda: gate.reached, PATIENCE, "the first recipient")
        assert sending.rescue() == 1
        after = sending.rows(sending.tables.email)
        now[0] += LEASE + 1  # not before: it would end its batch as soon as it sees that
        gate.open()
        assert working.result(PATIENCE).end is BatchEnd.LEASE_LOST
    assert catcher.emails == ()
    assert sending.rows(sending.tables.email) == after
    assert sending.counter(LOST) > 0


def test_an_email_withdrawn_while_its_batch_is_at_work_is_not_sent(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=1)
    ids = [shop.enqueue(address).id for address in addresses(3)]
    gate = catcher.hold_at("reply")
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(drain, shop.runtime)
        wait_until(lambda: gate.reached, PATIENCE, "the first email")
        with shop.session() as session:
            assert shop.outbox.cancel(id=ids[2], session=session) == 1
            session.commit()
        gate.open()
        working.result(PATIENCE)
    assert shop.statuses() == ["sent", "sent", "cancelled"]
    assert len(catcher.emails) == 2


def test_the_progress_of_a_drain_is_told(sending: Shop) -> None:
    for address in addresses(3):
        sending.enqueue(address)
    told: list[int] = []
    assert drain(sending.runtime, progress=told.append) == 3
    assert sum(told) == 3


def test_no_transaction_is_open_while_smtp_is_spoken(sending: Shop, catcher: Catcher) -> None:
    for address in addresses(3):
        sending.enqueue(address)
    out: list[int] = []
    lock = threading.Lock()
    count = [0]

    def moved(step: int) -> None:
        with lock:
            count[0] += step

    event.listen(sending.engine, "checkout", lambda *_: moved(1))
    event.listen(sending.engine, "checkin", lambda *_: moved(-1))
    catcher.reply_to_recipient = lambda _: out.append(count[0])
    drain(sending.runtime)
    assert out == [0, 0, 0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "text",
    ['say "x\\", {a,b} NULL', "\\", '"', "", "NULL", "{}", "a,b", " x ", "é '; --", "%s %(a)s"],
)
def test_a_replys_text_arrives_in_the_log_as_it_was(shop: Shop, text: str) -> None:
    first, second = shop.enqueue(), shop.enqueue()
    made = shop.started()
    assert shop.open(made.token, first.id, second.id) == {first.id, second.id}
    reply = Reply(code=250, enhanced="2.0.0", text=text)
    end = Outcome(status=Status.SENT, reply=reply, attempts_added=1)
    shop.record(made.token, [entry(m.id, end, Verdict.SENT) for m in (first, second)])
    log = shop.rows(shop.tables.attempt)
    assert [(row.reply, row.enhanced) for row in log] == [(text, "2.0.0")] * 2
