"""A server's silence to some emails, or for some time, shuts out the others for no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from outbox import Priority
from outbox.domain.delivery import breaker_timing as rules
from outbox.domain.delivery.breaker_timing import BreakerState, Cause
from outbox.domain.delivery.transaction import Phase, Reply, Transaction, Verdict
from outbox.smtp import reply_reader
from outbox.store.control import circuit_breaker
from outbox.store.control.blame import suspicion
from outbox.worker.batch import result_factory, todo
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.watch.diagnosis import ASIDE
from outbox.worker.batch.watch.server_watch import Watch
from tests.integration.blame.server import ClassServer
from tests.integration.worker.silence.test_silent_server import (
    DEADLINE,
    SILENT,
    SilentServer,
    until,
    workers,
    write,
)
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import ScriptedServer
from tests.support.shop.shop import Shops, message, sent
from tests.support.shop.steps.motion import server
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.one_database("mariadb"),
    pytest.mark.databases("postgresql", "mariadb"),
]

SILENCE = Transaction(
    verdict=Verdict.UNSENT,
    phase=Phase.MAIL,
    reply=Reply(code=0, text="no reply"),
    wait_given_up=True,
)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.5)
    monkeypatch.setattr(result_factory, "SLOW_DELAY", 1.0)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)
    monkeypatch.setattr(rules, "OPEN_FIRST", 0.5)
    monkeypatch.setattr(rules, "PROBE_FIRST", 0.5)
    monkeypatch.setattr(rules, "SESSION_FIRST", 0.5)


def test_a_larger_email_that_is_taken_ends_no_silence(shops: Shops) -> None:
    with ClassServer() as one:
        one.refuses = lambda _: False
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, bad=1)
        [bad] = shop.rows(shop.tables.email)
        suspicion.silent(shop.database, "a", email_id=bad.id, reason="no reply")
        with shop.session() as session:
            large = message("a@x.example", text="word " * 1000)
            shop.outbox.enqueue(large, session=session, priority=Priority.URGENT)
            session.commit()
        [claim] = shop.claim(priority=Priority.URGENT)
        send_batch(shop.runtime, claim.token)
    [row] = shop.rows(shop.tables.breaker)
    assert (row.state, row.cause) == (BreakerState.SUSPECTED, Cause.SILENCE)


@pytest.mark.long
def test_an_alert_of_a_lack_beside_a_silence_ends_and_the_silence_stays(shops: Shops) -> None:
    with ClassServer() as one:
        one.refuses = lambda _: False
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        bad = shop.enqueue("jö@x.example")
        suspicion.suspect(shop.database, "a", email_id=bad.id, reason="no SMTPUTF8", alert=True)
        suspicion.silent(shop.database, "a", email_id=bad.id, reason="no reply")
        [claim] = shop.claim()
        send_batch(shop.runtime, claim.token)
    assert shop.status(bad.id) == "sent"
    [row] = shop.rows(shop.tables.breaker)
    assert (row.cause, row.alert) == (Cause.SILENCE, False)


def test_a_server_that_took_an_email_just_now_is_not_blamed_for_silences(shops: Shops) -> None:
    shop = shops.open(OUTBOX_SERVERS=[server("a", 25)], OUTBOX_SLOTS=1)
    good = shop.enqueue()
    held = shop.sending(good.id)
    write(shop, bad=2)
    [claim] = shop.claim()
    batch = shop.start(claim.token)
    assert batch is not None
    taken = replace(sent(good.id), server="a", finished_at=time.time())
    shop.record(held.token, [taken])
    watch = Watch(shop.runtime, "a", breaker=None, suspect=None, lanes=lambda: [claim.lane])
    diagnoses = [watch.note(mail, SILENCE, list) for mail in batch.emails]
    assert set(diagnoses) == {ASIDE}, "and nobody is charged, whoever else was set aside"
    assert all(row.state != BreakerState.OPEN for row in shop.rows(shop.tables.breaker))


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2], ids=["one worker", "two"])
def test_a_probe_to_which_the_server_says_nothing_gives_way_to_others(
    count: int, shops: Shops
) -> None:
    with SilentServer(Phase.RCPT) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=count)
        write(shop, bad=2)
        [bad, _] = shop.rows(shop.tables.email)
        known = {"cause": Cause.EMAILS, "reason": "rcpt: no reply", "suspect_id": bad.id}
        circuit_breaker.trip(shop.database, "a", **known)
        shop.later(6.0)  # its time has come
        with workers(shop, count):
            wait_until(lambda: one.senders[SILENT], DEADLINE, "the probe is under way")
            write(shop, good=20)
            until(shop, "good", {"sent": 20})
            one.released.set()
            until(shop, "bad", {"sent": 2})


@pytest.mark.long
def test_a_server_that_takes_its_time_gets_its_probe_through(shops: Shops) -> None:
    with ClassServer() as one:
        one.refuses = lambda _: False
        one.pause = 1.6  # seconds: the first probe is not waited for so long
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, good=4)
        first = shop.rows(shop.tables.email)[0]
        known = {"cause": Cause.EMAILS, "reason": "rcpt: no reply", "suspect_id": first.id}
        circuit_breaker.trip(shop.database, "a", **known)
        shop.later(6.0)
        with workers(shop, 1):
            until(shop, "good", {"sent": 4})
        assert set(one.copies.values()) == {1}


class Hung(ScriptedServer):
    """Says nothing to its first connections, for ever, and serves the later ones."""

    def __init__(self, hung: int, inner: ClassServer) -> None:
        super().__init__()
        self._hung = hung
        self._inner = inner
        self._lock = threading.Lock()
        self.otherwise = (self._serve,)

    def _serve(self, dialogue: Dialogue) -> None:
        with self._lock:
            self._hung -= 1
            is_hung = self._hung >= 0
        if is_hung:
            dialogue.stopped.wait(300)
        else:
            self._inner._serve(dialogue)


@pytest.fixture
def inner() -> Iterator[ClassServer]:
    with ClassServer() as made:
        made.refuses = lambda _: False
        yield made


@pytest.mark.long
@pytest.mark.parametrize("hung", [1, 3])
def test_a_greeting_that_does_not_come_is_asked_for_anew(
    hung: int, inner: ClassServer, shops: Shops
) -> None:
    with Hung(hung, inner) as one:
        shop = shops.open(OUTBOX_SERVERS=[server("a", one.port)], OUTBOX_SLOTS=1)
        write(shop, good=5)
        with workers(shop, 1):
            until(shop, "good", {"sent": 5})
    assert {row.attempts for row in shop.rows(shop.tables.email)} == {1}


@pytest.mark.long
def test_the_patience_with_probes_and_sessions_grows_with_each_that_failed() -> None:
    waits = [rules.probe_seconds(failures) for failures in range(1, 8)]
    assert waits == [0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert [rules.session_seconds(failures) for failures in range(4)] == [0.5, 1.0, 2.0, 4.0]
    assert rules.session_seconds(10_000) == rules.session_seconds(20_000)
