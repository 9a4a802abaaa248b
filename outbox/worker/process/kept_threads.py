"""Threads that go on with what a finished batch has left, while its process sends others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Protocol

from . import shutdown
from .retry_writes import GRACE

HELD = 60.0
"""Seconds for which a process that nobody has asked to end waits at its end for what rows keep from
being written. Its place in the pool is empty meanwhile, and nothing may delay others for longer."""

AWAY = 600.0
"""The same while the database is away: then no process could send anything."""

LOOK = 0.5
"""Seconds between two looks whether to wait on."""


class Kept(Protocol):
    """What finished batches have left."""

    def wait(self, seconds: float) -> bool:
        """Wait so long for all of it; return whether all is done."""


class KeptThreads:
    """Starts threads, and waits for them before the process ends."""

    def __init__(self, name: str) -> None:
        """Each thread has this name."""
        self._name = name
        self._threads = set[threading.Thread]()

    def start(self, work: Callable[[], object]) -> bool:
        """Have a thread do the work; return False where there can be no more threads."""
        thread = threading.Thread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        # Two tasks may be here at a time: neither may forget the other's thread.
        self._threads.add(thread)
        self._threads.difference_update([one for one in self._threads.copy() if not one.is_alive()])
        return True

    @property
    def count(self) -> int:
        """How many threads go on."""
        return sum(thread.is_alive() for thread in self._threads.copy())

    def wait(self, seconds: float) -> bool:
        """Wait so long for all threads; return whether all are done."""
        deadline = monotonic() + seconds
        for thread in self._threads.copy():
            thread.join(max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads.copy())


def wait_at_end(kept: Sequence[Kept], *, is_asked: bool, is_away: Callable[[], bool]) -> bool:
    """Wait for all of this, because the process ends; return whether all is done.

    It waits for `GRACE` seconds from when the process is asked to end: from now on with `is_asked`.
    `is_away` returns whether it is the database that keeps it waiting, and not a row.
    """
    began = monotonic()
    asked_at = began if is_asked else inf
    while not all(one.wait(LOOK) for one in kept):
        now = monotonic()
        if shutdown.requested():
            asked_at = min(asked_at, now)
        spent = now - began
        if now - asked_at > GRACE or spent > AWAY or (spent > HELD and not is_away()):
            return False
    return True
