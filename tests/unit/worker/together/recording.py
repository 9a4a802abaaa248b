"""A stand-in for the table that a recorder writes to, and for the time-outs of who waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID

from outbox.store.records import Advanced, EmailResult, WindowChange
from outbox.worker.together.recorder import Recorder
from tests.support.waiting import wait_until

SECONDS = 30.0


def change(*ids: int, results: Sequence[EmailResult] = ()) -> WindowChange:
    """Return a change that opens these emails."""
    return WindowChange(UUID(int=(*ids, 0)[0]), tuple(results), ids)


def done(one: WindowChange) -> Advanced:
    return Advanced(frozenset(one.following), frozenset())


class Table:
    """What the changes are written to; it notes each write, and holds or fails those it is told."""

    def __init__(self) -> None:
        self.recorder = Recorder(self.write)
        self.writes: list[list[int]] = []  # the emails of each, in order
        self.fails: Callable[[list[int]], BaseException | None] = lambda _: None
        self.open = threading.Event()
        self.held: Callable[[list[int]], bool] = lambda _: False
        self._pool = ThreadPoolExecutor(100)

    def write(self, changes: Sequence[WindowChange]) -> list[Advanced]:
        ids = [email_id for one in changes for email_id in one.following]
        self.writes.append(ids)
        if self.held(ids):
            assert self.open.wait(SECONDS)
        if error := self.fails(ids):
            raise error
        return [done(one) for one in changes]

    def start(self, one: WindowChange) -> Future[Advanced]:
        """Write a change beside the others; return once it is being written, or queues."""
        before = self.seen
        future = self._pool.submit(self.recorder.write, one)
        wait_until(lambda: self.seen > before, SECONDS, "the change to be written or to queue")
        return future

    @property
    def seen(self) -> int:
        return len(self.writes) + len(self.recorder._queue)

    def lead(self) -> Future[Advanced]:
        """Have a task lead, and hold its write."""
        self.held = lambda ids: ids == [1]
        return self.start(change(1))

    def close(self) -> None:
        self.open.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def is_idle(table: Table) -> bool:
    return table.recorder._leader is None and not table.recorder._queue


class Turn:
    """A call's lock, whose time-out passes when the test says so, and not before."""

    def __init__(self, is_over: threading.Event) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._is_over = is_over
        self.release = self._lock.release

    def acquire(self, timeout: float) -> bool:
        while not self._lock.acquire(timeout=0.001):
            if self._is_over.is_set():
                return False
        return True
