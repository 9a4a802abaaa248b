"""Threads that go on with what a finished batch has left, while its process sends others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic


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

    def wait(self, seconds: float | None) -> bool:
        """Wait so long for all threads, or without end; return whether all are done."""
        deadline = None if seconds is None else monotonic() + seconds
        for thread in self._threads.copy():
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads.copy())
