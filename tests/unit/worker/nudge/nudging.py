"""A broker and a clock for the tests of the nudge, and how to wait for its thread."""

from __future__ import annotations

import threading

from outbox.worker.process.nudge import Nudge
from tests.support.waiting import wait_until

SECONDS = 30  # far beyond what any of this takes: a hang is a failure, no time decides


class Broker:
    """Counts what is published; can be held, and can fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[str] = set()
        self.error: BaseException | None = None
        self.is_taken = True
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()

    def publish(self) -> bool:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        self.entered.release()
        assert self.gate.wait(SECONDS)
        if self.error is not None:
            raise self.error
        return self.is_taken


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def entered(broker: Broker) -> bool:
    return broker.entered.acquire(timeout=SECONDS)


def tried(nudge: Nudge, failures: int) -> None:
    wait_until(lambda: nudge._failures == failures, SECONDS, f"{failures} failures to be counted")
