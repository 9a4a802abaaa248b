"""A server that says nothing to some emails, for as long as it is waited for: the others go on."""

from __future__ import annotations

import select
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import EmailMessage
from typing import Any

import pytest

from outbox import Priority
from outbox.domain.delivery.blame import SILENCES
from outbox.domain.delivery.breaker_timing import BreakerState, Cause
from outbox.domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from outbox.smtp import reply_reader
from outbox.store.records import Claim
from outbox.worker.batch import result_factory, todo
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.watch.diagnosis import Kind
from outbox.worker.batch.watch.server_watch import Watch
from outbox.worker.sweep import sweep
from tests.integration.blame.server import ClassServer, Habit, Seen
from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter, sent
from tests.support.shop.steps.motion import server
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.one_database("postgresql"),
    pytest.mark.databases("postgresql", "mariadb"),
]

DEADLINE = 100.0
"""Seconds: a third of what the reply to one command may take, as it comes."""

IDLE = 0.2
"""Seconds between two sweeps of a worker that has nothing to do. Each takes a processor's time."""

SILENT = "silent@shop.example"
COMMANDS = [Phase.MAIL, Phase.RCPT, Phase.DATA]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.5)
    monkeypatch.setattr(result_factory, "SLOW_DELAY", 1.0)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)


class SilentServer(ClassServer):
    """Says nothing to the emails that it refuses, until they have gone or it is `released`."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(Habit(phase=phase, answer=self._say_nothing))
        self.released = threading.Event()
        self.refuses = lambda seen: seen.sender == SILENT and not self.released.is_set()

    def _say_nothing(self, dialogue: Dialogue) -> None:
        gone = select.poll()
        gone.register(dialogue.sock, select.POLLRDHUP)
        while not (dialogue.stopped.is_set() or self.released.is_set() or gone.poll(20)):
            pass
        raise HangupError


def from_the_sender(number: int) -> EmailMessage:
    """Return a message to a domain that the good ones go to, too."""
    made = message(f"s{number}@readers.example")
    made.replace_header("From", SILENT)
    return made


def write(shop: Shop, *, bad: int = 0, good: int = 0) -> None:
    """Write the bad ones first."""
    options: dict[str, Any] = {"priority": Priority.NORMAL}
    with shop.session() as session:
        for number in range(bad):
            shop.outbox.enqueue(from_the_sender(number), session=session, tag="bad", **options)
        if good:
            to = addresses(good)
            shop.outbox.enqueue_many(newsletter(), to, session=session, tag="good", **options)
        session.commit()


@contextmanager
def workers(shop: Shop, count: int) -> Iterator[None]:
    """Run so many workers until the block ends; whoever has nothing to do sweeps now and then."""
    stop, lock = threading.Event(), threading.Lock()
    claims: list[Claim] = []

    def work() -> None:
        is_idle = False
        while not stop.wait(IDLE if is_idle else 0.0):
            with lock:
                sweep(shop.runtime, claims.append)
                mine = claims.pop(0) if claims else None
            is_idle = mine is None
            if mine is not None:
                send_batch(shop.runtime, mine.token)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE)


def statuses(shop: Shop, tag: str) -> Counter[str]:
    """Count the emails with this tag by their status."""
    email = shop.tables.email
    return Counter(row.status for row in shop.rows(email, email.c.tag == tag))


def until(shop: Shop, tag: str, ends: dict[str, int]) -> None:
    """Wait until the emails with this tag stand so."""
    wait_until(lambda: statuses(shop, tag) == ends, DEADLINE, lambda: f"{statuses(shop, tag)}")


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("phase", COMMANDS)
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 4])
def test_a_class_to_which_the_server_says_nothing_stops_no_other_and_costs_it_no_life(
    phase: Phase, count: int, shops: Shops
) -> None:
    with SilentServer(phase) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=count)
        write(shop, bad=12, good=100)
        with workers(shop, count):
            until(shop, "good", {"sent": 100})
            write(shop, good=20)
            until(shop, "good", {"sent": 120})
            email = shop.tables.email
            bad = shop.rows(email, email.c.tag == "bad")
            assert {(row.attempts, row.crashes, row.unknown_count) for row in bad} == {(0, 0, 0)}
            one.released.set()
        assert set(one.copies.values()) == {1, 2}, "the readers got two newsletters"


def test_an_email_for_which_a_server_takes_its_time_is_waited_for_where_no_other_waits(
    shops: Shops,
) -> None:
    with SilentServer(Phase.RCPT) as one:
        one.refuses = lambda _: not one.released.wait(DEADLINE)
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)])
        write(shop, bad=1)
        with workers(shop, 1):
            breaker = shop.tables.breaker
            wait_until(lambda: shop.rows(breaker), DEADLINE, "the email is known to be slow")
            one.released.set()
            until(shop, "bad", {"sent": 1})
        assert one.senders == {SILENT: 1}


@pytest.mark.over_and_over
@pytest.mark.long
@pytest.mark.parametrize("count", [1, 4], ids=["one worker", "four"])
def test_a_server_that_takes_its_time_with_each_email_takes_them_all(
    count: int, shops: Shops
) -> None:
    with ClassServer() as one:
        one.pause = 0.8  # seconds: longer than what counts as slow
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=count)
        write(shop, good=15)
        with workers(shop, count):
            until(shop, "good", {"sent": 15})
        email = shop.tables.email
        assert {row.attempts for row in shop.rows(email)} == {1}
        assert set(one.copies.values()) == {1}


@pytest.mark.long
def test_a_server_that_says_nothing_to_anybody_is_left_for_the_next_one(shops: Shops) -> None:
    with SilentServer(Phase.MAIL) as first, ClassServer() as second:
        first.refuses = lambda _: True
        entries = [server("a", first.port), server("b", second.port, order=2)]
        shop = shops.open(OUTBOX_SERVERS=entries, OUTBOX_SLOTS=1)
        write(shop, good=100)
        with workers(shop, 1):
            breaker = shop.tables.breaker.c
            found = (breaker.server == "a") & (breaker.state == BreakerState.OPEN)
            wait_until(lambda: shop.rows(shop.tables.breaker, found), DEADLINE, "an open breaker")
            until(shop, "good", {"sent": 100})
        assert set(second.copies.values()) == {1}


@pytest.mark.long
def test_what_is_like_an_email_that_got_no_reply_comes_last_also_when_others_were_judged(
    shops: Shops,
) -> None:
    with SilentServer(Phase.MAIL) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, bad=1, good=1)
        with workers(shop, 1):
            until(shop, "good", {"sent": 1})
            until(shop, "bad", {"pending": 1})
        [row] = shop.rows(shop.tables.breaker)
        assert (row.state, row.cause) == (BreakerState.SUSPECTED, Cause.SILENCE)
        one.released.set()
        order = list[str]()

        def takes(seen: Seen) -> bool:
            order.append(seen.sender)
            return False

        one.refuses = takes
        write(shop, bad=5, good=5)
        for claim in shop.claim():
            send_batch(shop.runtime, claim.token)
        assert order[-5:] == [SILENT] * 5
        assert SILENT not in order[:-5]


@pytest.mark.parametrize("takes", [True, False])
def test_emails_that_are_taken_between_silences_show_that_the_server_is_up(
    takes: bool, shops: Shops
) -> None:
    shop = shops.open(OUTBOX_SERVERS=[server("a", 25)], OUTBOX_SLOTS=1)
    # A batch from before the first silence: it knows of no suspicion, and clears none.
    good = shop.enqueue()
    window = shop.sending(good.id)
    write(shop, bad=SILENCES + 1)
    [claim] = shop.claim()
    batch = shop.start(claim.token)
    assert batch is not None
    write(shop, good=1)
    watch = Watch(shop.runtime, "a", breaker=None, suspect=None, lanes=lambda: [claim.lane])
    for place, silent in enumerate(batch.emails[:SILENCES]):
        watch.note_slow(silent)
        if takes and place == 0:
            taken = replace(sent(good.id), server="a", finished_at=time.time())
            shop.record(window.token, [taken])
    silence = Reply(code=0, text="no reply")
    given_up = Transaction(verdict=Verdict.UNSENT, phase=Phase.MAIL, reply=silence)
    diagnosis = watch.note(batch.emails[-1], given_up, list)
    assert (diagnosis.kind is Kind.SERVER) is not takes
    [row] = shop.rows(shop.tables.breaker)
    assert row.state == (BreakerState.SUSPECTED if takes else BreakerState.OPEN)
