"""A wake for later, and the nudge in a forked child."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from math import inf

import pytest

from outbox.worker.process import nudge as nudging
from outbox.worker.process.nudge import Nudge
from tests.support.waiting import wait_until
from tests.unit.worker.nudge.nudging import SECONDS, Broker, Clock, entered


def left(nudge: Nudge, seconds: float) -> None:
    wait_until(
        lambda: nudge._until_due() == seconds, SECONDS, lambda: f"{seconds}: {nudge._until_due()}"
    )


def test_a_wake_for_later_publishes_then_and_not_before(
    nudge: Nudge, held_broker: Broker, clock: Clock
) -> None:
    nudge.wake(100.0)
    left(nudge, 100.0)
    clock.now += 99.0
    nudge._wanted.set()  # the clock of this test does not wake anybody by itself
    wait_until(lambda: not nudge._wanted.is_set(), SECONDS, "a look at the clock")
    assert (held_broker.calls, nudge._until_due()) == (0, 1.0)
    clock.now += 1.0
    nudge._wanted.set()
    assert entered(held_broker)
    left(nudge, inf)


def test_a_wake_for_later_needs_no_other_to_come(held_broker: Broker) -> None:
    nudge = Nudge(held_broker.publish)
    nudge.wake(0.02)
    assert entered(held_broker)


def test_the_thread_holds_no_nudge_and_ends_when_nobody_does(
    held_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nudging, "IDLE_LOOK", 0.01)
    nudge = Nudge(held_broker.publish)
    nudge.wake()
    assert entered(held_broker)
    thread = nudge._thread
    assert isinstance(thread, threading.Thread)
    found = weakref.ref(nudge)
    del nudge
    thread.join(SECONDS)
    assert (found(), thread.is_alive()) == (None, False)


def test_of_wakes_for_later_the_first_one_counts(nudge: Nudge) -> None:
    for seconds in (60.0, 5.0, 30.0):
        nudge.wake(seconds)
    left(nudge, 5.0)


def test_a_wake_at_once_does_for_those_for_later(nudge: Nudge, held_broker: Broker) -> None:
    nudge.wake(60.0)
    left(nudge, 60.0)
    nudge.wake()
    assert entered(held_broker)
    left(nudge, inf)
    assert held_broker.calls == 1


def test_in_a_stream_of_wakes_the_first_publishes_at_once_and_the_rest_after_the_gap(
    held_broker: Broker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nudge = Nudge(held_broker.publish, clock=clock, gap=5.0)
    nudge.wake()
    assert entered(held_broker)
    wait_until(lambda: nudge._next == clock.now + 5.0, SECONDS, "the gap to begin")
    nudge.wake()
    left(nudge, 5.0)
    with monkeypatch.context() as patched:
        patched.setattr(nudge, "_wanted", None)  # what is to come serves them: nobody is woken
        for _ in range(3):
            clock.now += 1.0
            nudge.wake()
    left(nudge, 2.0)
    assert held_broker.calls == 1
    clock.now += 2.0
    nudge._wanted.set()  # the clock of this test does not wake anybody by itself
    assert entered(held_broker)
    left(nudge, inf)
    assert held_broker.calls == 2


def test_while_a_sweep_waits_for_a_worker_the_gap_doubles(
    held_broker: Broker, clock: Clock
) -> None:
    nudge, gaps = Nudge(held_broker.publish, clock=clock, gap=1.0), list[float]()
    for is_taken in [*[False] * 5, True, False]:
        held_broker.is_taken = is_taken
        nudge.wake()
        assert entered(held_broker)
        wait_until(lambda: nudge._next > clock.now, SECONDS, "the gap to begin")
        gaps.append(nudge._next - clock.now)
        clock.now = nudge._next
    assert gaps == [2.0, 4.0, 8.0, 8.0, 8.0, 1.0, 2.0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_inherit_the_parent_s_wake_for_later(nudge: Nudge) -> None:
    nudge.wake(60.0)
    left(nudge, 60.0)

    def child() -> bool:
        nudge.wake(90.0)
        left(nudge, 90.0)
        return True

    assert in_a_child(child) == 0
    assert nudge._until_due() == 60.0


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
def test_a_forked_child_has_a_thread_of_its_own(nudge: Nudge, held_broker: Broker) -> None:
    nudge.wake()
    assert entered(held_broker)

    def child() -> bool:
        nudge.wake()
        return entered(held_broker) and held_broker.calls == 2

    assert in_a_child(child) == 0
    assert held_broker.calls == 1, "the parent's held_broker heard nothing of it"
    nudge.wake()
    assert entered(held_broker)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_the_parent_publishes_is_not_held_up(
    nudge: Nudge, held_broker: Broker
) -> None:
    held_broker.gate.clear()
    nudge.wake()
    assert entered(held_broker)
    nudge.wake()  # one more is wanted: the child must not inherit it either

    def child() -> bool:
        held_broker.gate.set()
        nudge.wake()
        return entered(held_broker)

    assert in_a_child(child) == 0
    held_broker.gate.set()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_grandchild_wakes_too(nudge: Nudge, held_broker: Broker) -> None:
    def grandchild() -> bool:
        nudge.wake()
        return entered(held_broker)

    def child() -> bool:
        nudge.wake()
        return entered(held_broker) and in_a_child(grandchild) == 0

    assert in_a_child(child) == 0
