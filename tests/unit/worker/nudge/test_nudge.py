"""After a commit the sweep is woken: off the request's thread, merged, never in the way."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest
from kombu.exceptions import OperationalError

from outbox.worker.process.nudge import RETRY_FIRST, RETRY_LONGEST, Nudge
from tests.support.waiting import wait_until
from tests.unit.worker.nudge.nudging import SECONDS, Broker, Clock, entered, tried


def test_a_wake_publishes_on_another_thread(nudge: Nudge, held_broker: Broker) -> None:
    nudge.wake()
    assert entered(held_broker)
    assert held_broker.threads == {"outbox-nudge"}


def test_nothing_runs_before_the_first_wake(held_broker: Broker) -> None:
    assert Nudge(held_broker.publish)._thread is None
    assert held_broker.calls == 0


def test_wakes_during_a_publish_merge_into_one_more(nudge: Nudge, held_broker: Broker) -> None:
    held_broker.gate.clear()
    nudge.wake()
    assert entered(held_broker)
    for _ in range(1000):
        nudge.wake()
    assert held_broker.calls == 1
    held_broker.gate.set()
    assert entered(held_broker)
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "the merged wake to be taken")
    assert held_broker.calls == 2


def test_a_wake_does_no_io_and_returns_while_the_broker_hangs(
    nudge: Nudge, held_broker: Broker
) -> None:
    """The broker answers only after the test has woken it again and again: no wake can wait."""
    held_broker.gate.clear()
    for _ in range(100):
        nudge.wake()
    assert entered(held_broker)
    for _ in range(100):
        nudge.wake()
    assert held_broker.threads == {"outbox-nudge"}
    held_broker.gate.set()


def test_threads_that_wake_at_once_share_one_thread(nudge: Nudge, held_broker: Broker) -> None:
    barrier = threading.Barrier(8)

    def wake() -> None:
        barrier.wait(SECONDS)
        nudge.wake()

    before = set(threading.enumerate())
    wakers = [threading.Thread(target=wake) for _ in range(8)]
    for waker in wakers:
        waker.start()
    for waker in wakers:
        waker.join(SECONDS)
    assert entered(held_broker)
    ours = [t for t in threading.enumerate() if t.name == "outbox-nudge" and t not in before]
    assert len(ours) == 1
    assert ours[0].daemon


def refused() -> Exception:
    """Return an error as kombu raises it."""
    error = OperationalError("secret")
    error.__cause__ = ConnectionRefusedError("secret")
    return error


AWAY = "no sweep was asked for, the broker is away or refuses it"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("secret"), f"{AWAY} (OSError)"),
        (OperationalError("secret"), f"{AWAY} (OperationalError)"),
        (refused(), f"{AWAY} (ConnectionRefusedError)"),
        (AttributeError("secret"), "no sweep was asked for (AttributeError)"),
    ],
)
def test_a_failure_raises_nowhere_and_is_logged_once_without_its_text(
    nudge: Nudge,
    held_broker: Broker,
    clock: Clock,
    error: Exception,
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    held_broker.error = error
    with caplog.at_level(logging.INFO, "outbox"):
        for failures in (1, 2, 3):
            nudge.wake()
            assert entered(held_broker)
            tried(nudge, failures)
            clock.now += RETRY_LONGEST + 1
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert found == [("WARNING", f"outbox: {told}")]


def test_a_broker_that_is_down_is_left_alone_for_longer_and_longer(
    nudge: Nudge, held_broker: Broker, clock: Clock
) -> None:
    held_broker.error = OSError("away")
    pauses = []
    for failures in range(1, 8):
        nudge.wake()
        assert entered(held_broker)
        tried(nudge, failures)
        wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
        pauses.append(nudge._silent_until - clock.now)
        clock.now = nudge._silent_until
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert (pauses[0], pauses[-1]) == (RETRY_FIRST, RETRY_LONGEST)


def test_in_the_pause_nothing_is_published(nudge: Nudge, held_broker: Broker, clock: Clock) -> None:
    held_broker.error = OSError("away")
    nudge.wake()
    assert entered(held_broker)
    wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
    for _ in range(10):
        nudge.wake()
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "the wakes to be dropped")
    clock.now = nudge._silent_until
    held_broker.error = None
    nudge.wake()
    assert entered(held_broker)
    assert held_broker.calls == 2


def test_a_success_forgets_the_failures(nudge: Nudge, held_broker: Broker, clock: Clock) -> None:
    held_broker.error = OSError("away")
    nudge.wake()
    assert entered(held_broker)
    wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
    clock.now, held_broker.error = nudge._silent_until, None
    nudge.wake()
    assert entered(held_broker)
    tried(nudge, 0)
    wait_until(lambda: nudge._silent_until == 0, SECONDS, "the pause to be forgotten")


def test_a_broker_that_is_away_all_night_does_not_end_the_pauses(
    nudge: Nudge, held_broker: Broker, clock: Clock
) -> None:
    held_broker.error = OSError("away")
    nudge._failures = 2000
    nudge._try()
    assert nudge._silent_until == clock.now + RETRY_LONGEST


def test_a_wake_raises_nothing_where_no_thread_can_be_started(
    nudge: Nudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    nudge.wake()


_PRELOADED = """
from outbox.worker.process import nudge as nudging

published = []
nudge = nudging.Nudge(lambda: published.append(1))  # as gunicorn --preload makes it
import gevent
from gevent import monkey
monkey.patch_all()
import threading

made = []
run = nudging._run
nudging._run = lambda *given: (made.append(threading.current_thread().name), run(*given))
gevent.joinall([gevent.spawn(nudge.wake) for _ in range(3)], raise_error=True)
while not published:
    gevent.sleep()
print(made)
"""


@pytest.mark.long
def test_greenlets_that_wake_at_once_block_nobody_though_the_lock_is_an_unpatched_one() -> None:
    """Starting a thread yields to the next greenlet."""
    pytest.importorskip("gevent", reason="the oldest packages are tried without it")
    done = subprocess.run(
        [sys.executable, "-c", _PRELOADED], capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.stdout, done.returncode) == ("['outbox-nudge']\n", 0), done.stderr
