"""A host that reaches a server no more leaves it to the hosts that do, and halts it for nobody."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from outbox.domain.delivery.breaker_timing import BreakerState, Cause
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.reach import PAUSE_FIRST, PAUSE_MAX, WITNESS
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.control import circuit_breaker
from outbox.store.transitions.window import finish
from outbox.worker.batch import send_batch
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.throttle import Throttle
from tests.integration.worker.servers.test_failover import UNTOUCHED, pair, spare
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.scripted import PATIENCE, ScriptedServer, close, serve
from tests.support.shop.shop import Shop, Shops, entry
from tests.support.shop.steps.motion import Motion, attempts, halted, server, standing, write
from tests.support.waiting import wait_until

__all__ = ["spare"]
pytestmark = pytest.mark.each_database
MOVED = Reply(code=250, enhanced="2.0.0", text="ok")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_batch, "CUT_OFF_PAUSE", 0.0)


@pytest.fixture
def motion(shops: Shops, catcher: Catcher) -> Motion:
    """The workers of this host, whose only server is away."""
    shop = shops.open(OUTBOX_SERVERS=[server("mx", catcher.port)])
    catcher.stop()
    return Motion(shop=shop)


def sent_elsewhere(shop: Shop, seconds_ago: float = 0.0, name: str = "mx") -> None:
    """Have another host send an email over this server."""
    email = shop.enqueue()
    made = shop.sending(email.id)
    outcome = Outcome(status=Status.SENT, reply=MOVED, attempts_added=1)
    moment = time.time() + shop.database.offset - seconds_ago
    result = entry(
        email.id, outcome, Verdict.SENT, server=name, started_at=moment, finished_at=moment
    )
    finish(shop.database, made.token, [result], worker="elsewhere:1")


def wait(motion: Motion, seconds: float) -> None:
    """Let time go by, on the process's clock and on the database's."""
    clock = motion.shop.runtime.clock
    motion.shop.runtime.clock = lambda: clock() + seconds
    motion.shop.later(seconds)


@pytest.mark.long
def test_a_host_that_is_cut_off_halts_the_server_for_nobody(
    motion: Motion, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    sent_elsewhere(motion.shop)
    write(motion.shop, 3)
    with caplog.at_level(logging.ERROR, "outbox"):
        motion.beat()
    assert halted(motion.shop) == set()
    assert standing(motion.shop) == {("sent", 1, 0, 0): 1, UNTOUCHED: 3}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("outbox: this host opens no session with server mx (")
    assert line.endswith(f"but another host does: it leaves the server for {PAUSE_FIRST:.0f} s")

    catcher.start()
    motion.sweep()
    (claim,) = motion.waiting
    assert send_batch.send_batch(motion.shop.runtime, claim.token).end is BatchEnd.CUT_OFF
    assert catcher.sessions == 0, "it does not even try"
    motion.waiting.clear()

    wait(motion, PAUSE_FIRST)
    motion.beat()
    assert standing(motion.shop) == {("sent", 1, 0, 0): 4}


def test_no_email_waits_for_a_server_that_is_tried_again(shops: Shops) -> None:
    """Where a firewall drops packets, a try takes as long as its time-out."""
    let_go = threading.Event()

    def greet_late(dialogue: Dialogue) -> None:
        assert let_go.wait(PATIENCE)
        dialogue.say("220 mx ready")

    with ScriptedServer((close,), (greet_late, serve)) as one:
        motion = Motion(shop=shops.open(OUTBOX_SERVERS=[server("mx", one.port)]))
        shop = motion.shop
        sent_elsewhere(shop)
        write(shop, 3)
        motion.beat()
        wait(motion, PAUSE_FIRST)
        motion.sweep()
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(motion.work)
            try:
                wait_until(lambda: len(one.dialogues) == 2, PATIENCE, "a second session")
                assert standing(shop) == {("sent", 1, 0, 0): 1, UNTOUCHED: 3}
                (claim,) = motion.sweep()
                motion.waiting.clear()
                end = send_batch.send_batch(shop.runtime, claim.token).end
                assert end is BatchEnd.CUT_OFF, "the process tries it once at a time"
            finally:
                let_go.set()
            assert work.result(PATIENCE), "a sweep is worth it"
        assert one.verbs(1) == ["EHLO"]
        motion.beat()
        assert standing(shop) == {("sent", 1, 0, 0): 4}
        assert one.verbs(1).count("MAIL") == 3
        assert len(one.dialogues) == 2


@pytest.mark.long
def test_urgent_email_waits_for_no_such_try(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer((close,), (serve,)) as one:
        servers = [server("mx", one.port, order=0), server("spare", catcher.port, order=1)]
        motion = Motion(shop=shops.open(OUTBOX_SERVERS=servers))
        sent_elsewhere(motion.shop)
        write(motion.shop, 1)
        motion.beat()
        wait(motion, PAUSE_FIRST)
        with monkeypatch.context() as patched:  # a double: urgent email that lacks a process
            patched.setattr(Throttle, "must_yield", lambda _: True)
            write(motion.shop, 1)
            (claim,) = motion.sweep()
            assert send_batch.send_batch(motion.shop.runtime, claim.token).end is BatchEnd.YIELDED
        assert len(one.dialogues) == 1
        motion.waiting.clear()
        write(motion.shop, 1)
        motion.beat()
        assert len(one.dialogues) == 2, "the next batch tries"


def test_a_server_that_is_away_for_all_hosts_is_halted(motion: Motion) -> None:
    """What was sent before the outage soon speaks for it no more."""
    sent_elsewhere(motion.shop)
    write(motion.shop, 1)
    motion.beat()
    assert halted(motion.shop) == set()
    wait(motion, PAUSE_FIRST + 1)
    motion.beat()
    assert halted(motion.shop) == {"mx"}
    assert attempts(motion.shop) == {("mx", "sent"): 1}


@pytest.mark.long
def test_the_pause_doubles_while_another_host_sends(motion: Motion) -> None:
    write(motion.shop, 1)
    reach = motion.shop.runtime.reach
    for seconds in (PAUSE_FIRST, 2 * PAUSE_FIRST, 4 * PAUSE_FIRST, PAUSE_MAX, PAUSE_MAX):
        sent_elsewhere(motion.shop)
        motion.beat()
        assert halted(motion.shop) == set()
        wait(motion, seconds - 1)
        assert reach.is_left_for_now("mx")
        wait(motion, 1)
        assert not reach.is_left_for_now("mx")


# Real time passes meanwhile, so what is to count was sent well within the bound.
@pytest.mark.matrix
@pytest.mark.parametrize(("ago", "is_halted"), [(WITNESS / 2, False), (WITNESS + 1, True)])
def test_only_what_was_sent_lately_speaks_for_the_server(
    motion: Motion, ago: float, is_halted: bool
) -> None:
    sent_elsewhere(motion.shop, ago)
    write(motion.shop, 1)
    motion.beat()
    assert bool(halted(motion.shop)) is is_halted


def test_what_this_host_has_sent_tells_nothing(motion: Motion) -> None:
    sent_elsewhere(motion.shop)
    attempt, worker = motion.shop.tables.attempt, motion.shop.runtime.worker
    with motion.shop.engine.begin() as connection:
        connection.execute(update(attempt).values(worker=worker.rpartition(":")[0] + ":1"))
    write(motion.shop, 1)
    motion.beat()
    assert halted(motion.shop) == {"mx"}


@pytest.mark.long
def test_the_next_server_of_the_route_takes_the_emails_meanwhile(
    shops: Shops, catcher: Catcher, spare: Catcher
) -> None:
    shop = pair(shops, catcher.port, spare.port)
    catcher.stop()
    sent_elsewhere(shop, name="a")
    motion = Motion(shop=shop)
    for _ in range(2):
        write(shop, 2)
        motion.beat()
    assert halted(shop) == set()
    assert attempts(shop) == {("a", "sent"): 1, ("b", "sent"): 4}

    catcher.start()
    wait(motion, PAUSE_FIRST)
    write(shop, 2)
    motion.beat()
    assert attempts(shop) == {("a", "sent"): 1, ("b", "sent"): 6}
    assert catcher.sessions == 1, "it is tried behind the emails"
    assert not shop.runtime.reach.was_left("a")


def test_a_host_that_is_cut_off_leaves_the_probe_to_others(motion: Motion) -> None:
    """They halted the server, and it is back. A probe that was not made is no failure."""
    shop = motion.shop
    sent_elsewhere(shop)
    write(shop, 1)
    motion.beat()
    circuit_breaker.trip(shop.database, "mx", cause=Cause.SESSION, reason="away")
    shop.later(6)
    (probe,) = motion.sweep()
    assert probe.is_probe
    motion.work()
    (breaker,) = shop.database.run(lambda c: circuit_breaker.read(c, shop.database)).values()
    assert (breaker.failures, breaker.state) == (1, BreakerState.HALF_OPEN)
    (again,) = motion.sweep()
    assert again.is_probe


def test_a_cut_off_process_takes_no_other_task_for_a_moment(
    motion: Motion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would return the emails as fast as they are claimed."""
    slept: list[float] = []
    monkeypatch.setattr(send_batch, "CUT_OFF_PAUSE", 1.0)
    monkeypatch.setattr(time, "sleep", slept.append)
    sent_elsewhere(motion.shop)
    write(motion.shop, 1)
    motion.beat()
    assert slept == []
    motion.beat()
    assert sum(slept) == pytest.approx(1.0)
