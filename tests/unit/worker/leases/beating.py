"""Stand-ins for what leases are renewed with: a clock, the pace of the beats, and the table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy.exc import OperationalError

from outbox.store.connection.database import Database
from outbox.store.control import lease
from outbox.worker.leases.heartbeat import Heartbeat
from outbox.worker.leases.heartbeats import Heartbeats
from tests.support.waiting import wait_until

TERM, PATIENCE, BEGAN = 30.0, 100.0, 1000.0
SECONDS = 30


class Clock:
    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> float:
        return self.now


class Beat:
    """Stands in for the Event that paces the thread: each beat is the test's own."""

    def __init__(self) -> None:
        self.beats = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.stopped = False
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.done.release()
        assert self.beats.acquire(timeout=SECONDS)
        return self.stopped

    def set(self) -> None:
        self.stopped = True
        self.beats.release()


class Table:
    """Answers renewals: what comes next is the test's choice."""

    def __init__(self) -> None:
        self.renewals: list[tuple[list[UUID], float]] = []
        self.answers: list[Callable[[], Collection[UUID] | None]] = []
        self.busy: set[UUID] = set()  # neither renewed nor lost

    def renew(
        self, database: Database, tokens: Sequence[UUID], *, lease_seconds: float
    ) -> lease.Renewal:
        self.renewals.append((list(tokens), lease_seconds))
        lost = frozenset(self.answers.pop(0)() or () if self.answers else ())
        renewed = frozenset(tokens) - lost - self.busy
        return lease.Renewal(renewed=renewed, lost=lost)


class Hanging:
    """Something that hangs each time it is called, until the block ends."""

    def __init__(self) -> None:
        self._begun, self._goes_on = threading.Semaphore(0), threading.Event()

    def __call__(self) -> None:
        self._begun.release()
        assert self._goes_on.wait(SECONDS)

    def hangs(self) -> bool:
        """Wait until it hangs once more than was asked before."""
        return self._begun.acquire(timeout=SECONDS)

    def __enter__(self) -> Hanging:
        return self

    def __exit__(self, *raised: object) -> None:
        self._goes_on.set()


class Process:
    """A process whose beats the test gives."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.paces: list[Beat] = []  # of each thread in turn
        self.hearts = Heartbeats(
            cast(Any, lambda: None), term=lambda: TERM, clock=clock, pace=cast(Any, self._pace)
        )

    def _pace(self) -> Beat:
        self.paces.append(Beat())
        return self.paces[-1]

    def batch(self) -> Heartbeat:
        began = self.clock()
        return Heartbeat(
            self.hearts, uuid4(), term=TERM, patience=PATIENCE, began=began, clock=self.clock
        )

    def waits(self) -> None:
        """Wait until the thread waits for its beat: what it measures begins then."""
        done = self.paces[-1].done
        wait_until(lambda: done._value == 1, SECONDS, "the thread to wait for its beat")

    def pulse(self, *, wait: bool = True) -> None:
        """Let one third of the term pass; `wait` until the beat is over."""
        pace, thread = self.paces[-1], self.hearts._thread
        assert thread is not None
        assert pace.done.acquire(timeout=SECONDS), "the thread waits for its beat"
        pace.beats.release()
        wait_until(lambda: pace.done._value or not thread.is_alive(), SECONDS, "it to have beaten")
        for beat in beating() if wait else ():
            beat.join(SECONDS)
            assert not beat.is_alive()
        if wait and self.hearts._thread is None:
            thread.join(SECONDS)

    def renews(self, *batches: Heartbeat) -> bool:
        """Whether exactly these batches are renewed from now on, and the thread lives for them."""
        thread = self.hearts._thread
        assert (thread is not None and thread.is_alive()) == bool(self.hearts._hearts)
        return list(self.hearts._hearts) == list(batches)


def beating() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outbox-lease"]


def away() -> None:
    raise OperationalError("UPDATE", {}, OSError("gone"))
