"""Has the tasks of one process share few database connections: whoever waits comes in turn.

An engine's pool has a time-out, and lets newcomers pass those that wait. Here each waits for the
statements of those that came before it, which are short.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A context for at most `places` threads at once; the others enter in the order they came.

    A thread that is inside already enters again at once, because it would wait for itself.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._free = places
        self._lock = threading.Lock()
        self._waiting = deque[threading.Lock]()  # each is opened when its turn has come
        self._own = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        if depth == 0:
            self._take()
        self._own.depth = depth + 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._own.depth -= 1
        if self._own.depth == 0:
            self._give()

    def _take(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # as gevent ends a task
            self._leave(turn)
            raise

    def _leave(self, turn: threading.Lock) -> None:
        """Stop waiting. If the turn has just come, the next thread gets it."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return
        self._give()

    def _give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1
