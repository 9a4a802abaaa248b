"""Beat for a host whose clock may be set back: what guarantees the sweep must not rest on it."""

from __future__ import annotations

import time
from typing import Any

from celery.beat import PersistentScheduler

_TOLERANCE = 1.0
"""Seconds that the clock may be slewed, or lag, between two ticks without being set back."""


class SteadyScheduler(PersistentScheduler):  # type: ignore[misc]  # Celery is untyped
    """Celery's own scheduler, which goes on when the clock is set back.

    Celery plans by the wall clock, in memory and in its schedule file. Set back by ten minutes,
    beat would sweep nothing for ten minutes, restarts included. Here what seems to have run in the
    future counts as having run just now.
    """

    def setup_schedule(self) -> None:
        """Read the schedule file, which may be of a time when the clock was ahead."""
        super().setup_schedule()
        self._ahead = _ahead()
        self._forget_the_future()

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Plan anew where the clock was set back since the last tick."""
        before, self._ahead = self._ahead, _ahead()
        if self._ahead < before - _TOLERANCE:
            self._forget_the_future()
            self._heap = None  # the next runs are planned again
        seconds: float = super().tick(*args, **kwargs)
        return seconds

    def _forget_the_future(self) -> None:
        for entry in self.schedule.values():
            now = entry.default_now()
            if entry.last_run_at > now:
                entry.last_run_at = now


def _ahead() -> float:
    """Return how far the wall clock is ahead of the one that nobody sets."""
    return time.time() - time.monotonic()
