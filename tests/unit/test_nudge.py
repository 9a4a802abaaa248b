"""After a commit the sweep is woken: off the request's thread, merged, never in the way."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import pytest

from outbox.worker.nudge import FIRST_PAUSE, LONGEST_PAUSE, Nudge
from tests.waiting import wait_until

SECONDS = 30  # far beyond what any of this takes: a hang is a failure, no time decides


class Broker:
    """Counts what is published; can be held, and can fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[str] = set()
        self.error: BaseException | None = None
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def publish(self) -> None:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        self.entered.release()
        assert self.gate.wait(SECONDS)
        if self.error is not None:
            raise self.error


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nudge(broker: Broker, clock: Clock) -> Nudge:
    return Nudge(broker.publish, clock=clock)


def entered(broker: Broker) -> bool:
    return broker.entered.acquire(timeout=SECONDS)


def tried(nudge: Nudge, failures: int) -> None:
    wait_until(lambda: nudge._failures == failures, SECONDS, f"{failures} failures to be counted")


def test_a_wake_publishes_on_another_thread(nudge: Nudge, broker: Broker) -> None:
    nudge.wake()
    assert entered(broker)
    assert broker.threads == {"outbox-nudge"}


def test_nothing_runs_before_the_first_wake(broker: Broker) -> None:
    assert Nudge(broker.publish)._thread is None
    assert broker.calls == 0


def test_wakes_during_a_publish_merge_into_one_more(nudge: Nudge, broker: Broker) -> None:
    broker.gate.clear()
    nudge.wake()
    assert entered(broker)
    for _ in range(1000):
        nudge.wake()
    assert broker.calls == 1
    broker.gate.set()
    assert entered(broker)
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "the merged wake to be taken")
    assert broker.calls == 2


def test_a_wake_does_no_io_and_returns_while_the_broker_hangs(nudge: Nudge, broker: Broker) -> None:
    """The broker answers only after the test has woken it again and again: no wake can wait."""
    broker.gate.clear()
    for _ in range(100):
        nudge.wake()
    assert entered(broker)
    for _ in range(100):
        nudge.wake()
    assert broker.threads == {"outbox-nudge"}
    broker.gate.set()


def test_threads_that_wake_at_once_share_one_thread(nudge: Nudge, broker: Broker) -> None:
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
    assert entered(broker)
    ours = [t for t in threading.enumerate() if t.name == "outbox-nudge" and t not in before]
    assert len(ours) == 1
    assert ours[0].daemon


@pytest.mark.parametrize("error", [OSError("away"), RuntimeError("x"), ValueError("secret")])
def test_a_failure_raises_nowhere_and_is_logged_once_without_its_text(
    nudge: Nudge,
    broker: Broker,
    clock: Clock,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker.error = error
    with caplog.at_level(logging.INFO, "outbox"):
        for failures in (1, 2, 3):
            nudge.wake()
            assert entered(broker)
            tried(nudge, failures)
            clock.now += LONGEST_PAUSE + 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text


def test_a_broker_that_is_down_is_left_alone_for_longer_and_longer(
    nudge: Nudge, broker: Broker, clock: Clock
) -> None:
    broker.error = OSError("away")
    pauses = []
    for failures in range(1, 8):
        nudge.wake()
        assert entered(broker)
        tried(nudge, failures)
        wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
        pauses.append(nudge._silent_until - clock.now)
        clock.now = nudge._silent_until
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE, LONGEST_PAUSE)


def test_in_the_pause_nothing_is_published(nudge: Nudge, broker: Broker, clock: Clock) -> None:
    broker.error = OSError("away")
    nudge.wake()
    assert entered(broker)
    wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
    for _ in range(10):
        nudge.wake()
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "the wakes to be dropped")
    clock.now = nudge._silent_until
    broker.error = None
    nudge.wake()
    assert entered(broker)
    assert broker.calls == 2


def test_a_success_forgets_the_failures(nudge: Nudge, broker: Broker, clock: Clock) -> None:
    broker.error = OSError("away")
    nudge.wake()
    assert entered(broker)
    wait_until(lambda: nudge._silent_until > clock.now, SECONDS, "the pause to be set")
    clock.now, broker.error = nudge._silent_until, None
    nudge.wake()
    assert entered(broker)
    tried(nudge, 0)
    wait_until(lambda: nudge._silent_until == 0, SECONDS, "the pause to be forgotten")


def test_a_broker_that_is_away_all_night_does_not_end_the_pauses(
    nudge: Nudge, broker: Broker, clock: Clock
) -> None:
    broker.error = OSError("away")
    nudge._failures = 2000
    nudge._try()
    assert nudge._silent_until == clock.now + LONGEST_PAUSE


def test_a_wake_raises_nothing_where_no_thread_can_be_started(
    nudge: Nudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    nudge.wake()


def left(nudge: Nudge, seconds: float | None) -> None:
    wait_until(lambda: nudge._left() == seconds, SECONDS, lambda: f"{seconds}: {nudge._left()}")


def test_a_wake_for_later_publishes_then_and_not_before(
    nudge: Nudge, broker: Broker, clock: Clock
) -> None:
    nudge.wake(100.0)
    left(nudge, 100.0)
    clock.now += 99.0
    nudge._wanted.set()  # the clock of this test does not wake anybody by itself
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "a look at the clock")
    assert (broker.calls, nudge._left()) == (0, 1.0)
    clock.now += 1.0
    nudge._wanted.set()
    assert entered(broker)
    left(nudge, None)


def test_a_wake_for_later_needs_no_other_to_come(broker: Broker) -> None:
    Nudge(broker.publish).wake(0.02)
    assert entered(broker)


def test_of_wakes_for_later_the_first_one_counts(nudge: Nudge) -> None:
    for seconds in (60.0, 5.0, 30.0):
        nudge.wake(seconds)
    left(nudge, 5.0)


def test_a_wake_at_once_does_for_those_for_later(nudge: Nudge, broker: Broker) -> None:
    nudge.wake(60.0)
    left(nudge, 60.0)
    nudge.wake()
    assert entered(broker)
    left(nudge, None)
    assert broker.calls == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_inherit_the_parent_s_wake_for_later(nudge: Nudge) -> None:
    nudge.wake(60.0)
    left(nudge, 60.0)

    def child() -> bool:
        nudge.wake(90.0)
        left(nudge, 90.0)
        return True

    assert in_a_child(child) == 0
    assert nudge._left() == 60.0


def in_a_child(work: Callable[[], bool]) -> int:
    """Fork, run `work` in the child, and return the child's exit status: 0 where it is true."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own(nudge: Nudge, broker: Broker) -> None:
    nudge.wake()
    assert entered(broker)

    def child() -> bool:
        nudge.wake()
        return entered(broker) and broker.calls == 2

    assert in_a_child(child) == 0
    assert broker.calls == 1, "the parent's broker heard nothing of it"
    nudge.wake()
    assert entered(broker)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_the_parent_publishes_is_not_held_up(
    nudge: Nudge, broker: Broker
) -> None:
    broker.gate.clear()
    nudge.wake()
    assert entered(broker)
    nudge.wake()  # one more is wanted: the child must not inherit it either

    def child() -> bool:
        broker.gate.set()
        nudge.wake()
        return entered(broker)

    assert in_a_child(child) == 0
    broker.gate.set()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_grandchild_wakes_too(nudge: Nudge, broker: Broker) -> None:
    def grandchild() -> bool:
        nudge.wake()
        return entered(broker)

    def child() -> bool:
        nudge.wake()
        return entered(broker) and in_a_child(grandchild) == 0

    assert in_a_child(child) == 0
