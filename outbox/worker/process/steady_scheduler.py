"""A scheduler for beat that goes on when the host's clock is set back.

Beat guarantees the sweep, so it must not depend on the wall clock.
"""

from __future__ import annotations

import time
from typing import Any

from celery.beat import PersistentScheduler

_TOLERANCE = 1.0
"""Seconds that a clock may be slewed or lag between two ticks without counting as set back."""


class SteadyScheduler(PersistentScheduler):  # type: ignore[misc]  # Celery is untyped
    """Celery's persistent scheduler, except that it goes on when the clock is set back.

    Celery plans by the wall clock, in memory and in its schedule file. After a clock is set back by
    ten minutes, beat would not sweep for ten minutes, even after a restart. Here an entry whose
    last run lies in the future counts as having run just now.
    """

    _due = 0.0  # when the next tick should have come, on the monotonic clock; 0: there was none

    def setup_schedule(self) -> None:
        """Read the schedule file, which may have been written while the clock was ahead."""
        super().setup_schedule()
        self._ahead = _ahead()
        self._forget_the_future()

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Tick, and first plan anew if the clock was set back since the last tick."""
        before, self._ahead = self._ahead, _ahead()
        if self._ahead < before - _TOLERANCE:
            self._forget_the_future()
            self._heap = None  # the next runs are planned again
        self._due = time.monotonic()  # for as long as this tick lasts: a publish may never end
        seconds: float = super().tick(*args, **kwargs)
        self._due = time.monotonic() + seconds
        return seconds

    def seconds_late(self) -> float:
        """Return for how many seconds beat has been within one tick, or has missed the next one."""
        return max(0.0, time.monotonic() - self._due) if self._due else 0.0

    def _forget_the_future(self) -> None:
        for entry in self.schedule.values():
            now = entry.default_now()
            if entry.last_run_at > now:
                entry.last_run_at = now


def _ahead() -> float:
    """Return how many seconds the wall clock is ahead of the monotonic one."""
    return time.time() - time.monotonic()
