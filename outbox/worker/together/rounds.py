"""One sweep at a time in each process: whoever comes meanwhile has it go round once more.

A sweep sees the slots that are free when it begins. The threads of a process often end their
batches together, and as many sweeps side by side would each claim batches for all of these slots.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

MOST_ROUNDS = 20
"""The most rounds of one sweep: its task is to end, too."""

PATIENCE = 2.0
"""Seconds after which a sweep counts as hung, as its connection may be. Then another one begins."""


class Rounds:
    """Lends the sweep of a process to one thread at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.after_fork()

    def after_fork(self) -> None:
        """Have nobody sweep: the parent's threads stayed there."""
        self._lock = threading.Lock()
        self._going: object | None = None  # the sweep that goes on
        self._since = 0.0
        self._is_asked = False

    def __iter__(self) -> Iterator[None]:
        """Yield for each round; not at all while another thread sweeps, which goes round again.

        Whoever comes during the last of `MOST_ROUNDS` is left to the next sweep.
        """
        if (mine := self._begin()) is None:
            return
        try:
            for _ in range(MOST_ROUNDS):
                yield
                if not self._goes_on(mine):
                    return
        finally:
            self._end(mine)

    @property
    def is_asked(self) -> bool:
        """Whether somebody came during the last round: one that has stopped early owes a sweep."""
        return self._is_asked

    def _begin(self) -> object | None:
        with self._lock:
            if self._going is not None and self._clock() - self._since < PATIENCE:
                self._is_asked = True
                return None
            self._going, self._since, self._is_asked = object(), self._clock(), False
            return self._going

    def _goes_on(self, mine: object) -> bool:
        with self._lock:
            if self._going is not mine:
                return False
            if not self._is_asked:
                self._going = None  # in one step with the look, so that nobody asks in vain
                return False
            self._since, self._is_asked = self._clock(), False
            return True

    def _end(self, mine: object) -> None:
        with self._lock:
            if self._going is mine:
                self._going = None
