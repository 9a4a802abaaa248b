"""Remembers when a process last claimed or sent emails of each way, so that lanes take turns.

Nothing in the table tells that: a lease goes with its batch. Without it the lane with the oldest
backlog would get each slot again, for as long as that backlog lasts. Each process knows its own
turns only. So it claims from each lane once before it claims from any lane twice, and all
processes together do so about as evenly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey

_MOST = 10_000
"""The most ways that are remembered. The lanes' names come from rows of any version."""


class Turns:
    """The number of each way's last turn. A later turn has a higher number, and none has 0."""

    def __init__(self) -> None:
        self.last: Mapping[LaneKey, int] = {}
        self._number = 1
        self.after_fork()

    def after_fork(self) -> None:
        """Have nobody hold the lock: the parent's threads stayed there."""
        self._lock = threading.Lock()

    def note(self, ways: Iterable[LaneKey]) -> None:
        """Note that emails of these ways are claimed, or are sent now.

        Of several the most urgent have their turn first. So a window that is claimed together with
        more urgent email has had its turn after that, and waits for the next claim of it.
        """
        with self._lock:
            last = {**self.last, **{way: self._number + way[1] for way in ways}}
            self._number += len(Priority)
            if len(last) > _MOST:  # those without a turn for longest are as good as new
                newest = sorted(last, key=last.__getitem__)[-_MOST // 2 :]
                last = {way: last[way] for way in newest}
            self.last = last  # in one step: another thread may plan by it now
