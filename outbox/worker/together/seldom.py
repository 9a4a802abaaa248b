"""What a process does seldom, whichever of its tasks comes when it is time."""

from __future__ import annotations

from collections.abc import Callable
from math import inf


class Seldom:
    """Knows when this process did such a thing last, by the thing's name.

    Two threads that ask at the same moment may both do it. That does no harm.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = dict[str, float]()

    def is_due(self, what: str, every: float) -> bool:
        """Return whether this was not done for so many seconds; then it counts as done now."""
        now = self._clock()
        if now - self._last.get(what, -inf) < every:
            return False
        self._last[what] = now
        return True

    def note(self, what: str) -> None:
        """Have this count as done now: it took a while."""
        self._last[what] = self._clock()

    def forget(self, what: str) -> None:
        """Have this be due at once: it was not done, or not to its end."""
        self._last.pop(what, None)
