"""What an open window does with time: it closes by it, and nobody waits long for a slow email."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from outbox.store.records import Batch
from outbox.store.schema.clock import utc
from outbox.worker.batch import send_window, todo
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.send_email import EmailSender
from outbox.worker.batch.server_choice import ServerChoice
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import GREET, HELLO, ScriptedServer, serve
from tests.support.servers.smtp.stateful import Says, StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses, message
from tests.support.shop.steps.motion import Motion, attempts, server, standing, write
from tests.support.waiting import wait_until

pytestmark = pytest.mark.one_database("mariadb")

SENT, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 0, 0, 0)


class Clock:
    """A worker's clock that only the test moves: a double, for a real one has to be waited for."""

    def __init__(self, shop: Shop) -> None:
        self._now = shop.runtime.clock()
        shop.runtime.clock = lambda: self._now

    def later(self, seconds: float) -> None:
        self._now += seconds


def test_a_window_closes_by_time_and_what_is_left_of_it_is_no_longer_in_an_open_one(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW_SECONDS=1.0, OUTBOX_BATCH_SECONDS=900)
    clock, seen = Clock(shop), list[list[str]]()

    def slowly(_: CaughtMail) -> None:  # before any command that was announced behind it
        seen.append(shop.statuses())
        clock.later(0.6)

    catcher.reply_to_content = slowly
    write(shop, 7)
    Motion(shop=shop).beat()
    assert standing(shop) == {SENT: 7}
    assert [statuses.count("sending") for statuses in seen] == [7, 7, 2, 2, 2, 2, 1]
    assert set(catcher.copies().values()) == {1}


def test_an_email_that_expires_while_its_window_is_open_is_not_sent(
    shops: Shops, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW_SECONDS=900)
    clock = Clock(shop)
    first = shop.enqueue()
    soon = utc(shop.email_row(first.id).created_at) + timedelta(seconds=20)
    last = shop.enqueue("late@customers.example", expires_at=soon)

    def slowly(_: str) -> None:
        clock.later(25)

    catcher.reply_to_recipient = slowly
    motion = Motion(shop=shop)
    motion.sweep()
    motion.work()
    assert (shop.status(first.id), shop.status(last.id)) == ("sent", "pending")
    shop.later(25)
    motion.beat()
    assert shop.status(last.id) == "expired"
    assert len(catcher.emails) == 1


@pytest.mark.long
def test_what_waits_behind_a_server_that_hangs_is_given_back_and_goes_with_another_batch(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.2)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(dialogue: Dialogue) -> None:
        hangs.set()
        goes_on.wait(60)

    answers: dict[str, Any] = {"RCPT 2": Says(reply="250 2.1.5 ok", then=hang)}
    with StatefulServer(answers) as first, ThreadPoolExecutor(1) as pool:
        servers = [server("a", first.port)]
        shop = shops.open(OUTBOX_SERVERS=servers, OUTBOX_LEASE=1.0, OUTBOX_WINDOW=4)
        write(shop, 10)
        [made] = Motion(shop=shop).sweep() if shop.runtime.slots() == 1 else _one(shop)
        work = pool.submit(send_batch, shop.runtime, made.token)
        assert hangs.wait(60)
        wait_until(lambda: shop.statuses().count("pending") == 8, 60, lambda: f"{standing(shop)}")
        assert shop.statuses().count("sending") <= 2, "the one that hangs, and the one before it"
        other = _one(shop)
        assert other[0].emails == 8
        assert send_batch(shop.runtime, other[0].token).is_worth_a_sweep
        goes_on.set()
        assert work.result(60)
        assert standing(shop) == {SENT: 10}
        copies = [mail.recipients for mail in first.accepted]
    assert sorted(copies) == sorted((address,) for address in addresses(10))


def _one(shop: Shop) -> list[Any]:
    """Claim everything that is due as one batch."""
    return shop.claim()


def test_emails_of_an_open_window_that_never_left_are_given_back_by_a_worker_that_is_stopped(
    shops: Shops, catcher: Catcher
) -> None:
    """A soft time limit ends the task while the server takes its time with the first email."""
    shop = shops.open(MAIL_PORT=catcher.port)
    write(shop, 5)
    clock, limits = shop.runtime.clock, [SoftTimeLimitExceeded()]

    def now() -> float:
        if len(catcher.emails) == 2 and limits:
            raise limits.pop()
        return clock()

    [made] = shop.claim()
    shop.runtime.clock = now
    with pytest.raises(SoftTimeLimitExceeded):
        send_batch(shop.runtime, made.token)
    # The second one's reply may have come, or not: of it alone nobody can be sure.
    assert standing(shop)[UNTOUCHED] == 3
    assert {*shop.statuses()[2:]} == {"pending"}


def test_before_the_connection_stands_no_window_is_open(shops: Shops) -> None:
    """A worker that is killed while a server is slow to greet leaves nothing in doubt."""
    seen: list[list[str]] = []
    opened: list[Shop] = []

    def slow(dialogue: Dialogue) -> None:
        seen.append(opened[0].statuses())
        GREET(dialogue)

    with ScriptedServer((slow, *HELLO[1:], serve)) as first:
        opened.append(shops.open(MAIL_PORT=first.port))
        write(opened[0], 3)
        Motion(shop=opened[0]).beat()
    assert seen == [["claimed"] * 3]
    assert standing(opened[0]) == {SENT: 3}


def test_an_email_that_moves_to_the_next_server_takes_that_servers_permits(
    shops: Shops, catcher: Catcher
) -> None:
    """A server at two an hour gets two, however many another one halts."""
    halting = dict.fromkeys((f"MAIL {n}" if n > 1 else "MAIL" for n in range(1, 9)), "421 4.3.2 no")
    with StatefulServer(halting) as first:
        shop = shops.open(
            OUTBOX_SERVERS=[
                server("a", first.port),
                server("b", catcher.port, order=2, rate="2/h"),
            ]
        )
        for number in range(6):
            with shop.session() as session:
                shop.outbox.enqueue(message(f"r@d{number}.example"), session=session)
                session.commit()
        Motion(shop=shop).beat()
    assert (len(catcher.emails), attempts(shop)["b", "sent"]) == (1, 1)
    Motion(shop=shop).beat()
    assert len(catcher.emails) == 1, "the next permit comes in half an hour"


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_batch_that_is_over_is_forgotten_at_once(sending: Shop) -> None:
    """An idle worker must not hold the last emails, nor leave them to the garbage collector."""
    for address in addresses(5):
        sending.enqueue(address)
    (made,) = sending.claim()
    gc.collect()  # what other tests have left
    kinds = (ServerChoice, send_window.Window, EmailSender, Batch)
    # A thread of another test that waits for its server still holds some.
    older = [each for each in gc.get_objects() if isinstance(each, kinds)]
    known = {id(each) for each in older}
    gc.disable()
    try:
        send_batch(sending.runtime, made.token)
        objects = (each for each in gc.get_objects() if isinstance(each, kinds))
        left = [type(each).__name__ for each in objects if id(each) not in known]
    finally:
        gc.enable()
    assert left == []


def test_no_result_that_is_known_waits_for_a_new_session(shops: Shops) -> None:
    """Its server may be silent, and a worker that is killed then would leave doubts."""
    seen = list[list[str]]()

    def greet(dialogue: Dialogue) -> None:
        seen.append(shop.statuses())
        dialogue.say("220 stateful.example ESMTP")

    with StatefulServer({"CONNECT 2": greet}) as one:
        settings = {"OUTBOX_WINDOW": 2, "OUTBOX_CONNECTION_EMAILS": 2, "OUTBOX_SLOTS": 1}
        shop = shops.open(MAIL_PORT=one.port, **settings)
        write(shop, 4)
        Motion(shop=shop).beat()
        assert standing(shop) == {SENT: 4}
        assert set(one.copies().values()) == {1}
    assert seen == [["sent", "sent", "claimed", "claimed"]]
