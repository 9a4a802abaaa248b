"""Until when the batches of a process need not ask whether more urgent email waits.

All batches of a process ask the database at most ten times a second while nothing waits. Where
something does, each asks for itself: once one has given way, the others need not.
"""

from __future__ import annotations

from collections.abc import Callable

from ...domain.scheduling.claim_plan import LaneKey

ASK_EVERY = 0.1
"""Seconds between two checks for urgent email and for a shutdown while a batch goes on."""

_MOST_PAUSES = 10
"""A way whose waiting email cannot go asks again after this many pauses at most."""


def pause_after(seconds: float) -> float:
    """Return the seconds until the next question, after one that took so many.

    One that takes long, as with thousands of lanes on MariaDB, is asked less often. So questions
    take a tenth of a batch's time at most.
    """
    return max(ASK_EVERY, 9 * seconds)


class Calm:
    """Remembers until when an answer holds, and for which batches of the process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0  # no email waits for which any batch could give way
        self._ways_until = dict[LaneKey, float]()  # none for which a batch of this way could
        self.has_urgent = True
        """Whether urgent email was due or in flight when a batch asked last, if any has asked."""

    def holds(self, way: LaneKey) -> bool:
        """Return whether a batch of this way need not ask now."""
        return self._clock() < max(self._until, self._ways_until.get(way, 0.0))

    def ask(self, way: LaneKey, question: Callable[[], tuple[bool, bool]]) -> bool:
        """Return whether a batch of this way is to give way, and keep calm for a while if not.

        `question` returns this, and whether each batch of the process would get the same answer.
        """
        begun = self._clock()
        self._until = begun + ASK_EVERY  # the others need not ask meanwhile
        gives_way = is_for_all = True
        try:
            gives_way, is_for_all = question()
        finally:
            ended = self._clock()
            pause = 0.0 if gives_way else pause_after(ended - begun)
            self._until = ended + pause if is_for_all and pause else 0.0
            if not is_for_all and not gives_way:
                self._calm(way, ended, pause)
        return gives_way

    def _calm(self, way: LaneKey, now: float, pause: float) -> None:
        """Have the batches of this way ask later; of many ways each does so less often."""
        calm = {key: until for key, until in list(self._ways_until.items()) if until > now}
        calm[way] = now + pause * min(_MOST_PAUSES, 1 + len(calm))
        self._ways_until = calm
