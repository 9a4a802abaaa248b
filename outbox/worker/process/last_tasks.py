"""When a worker's processes last took a task. They tell their parent over shared memory.

The parent process writes it down with its own row: so it costs no statement. Where tasks are rare,
where there is no parent, or where it cannot write, the process of the task leaves the mark.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from ...domain import fleet
from ...store.control import beat
from ...store.control.beat import Told
from ...store.control.counter import BEAT, TASK
from .steady_clock import steady

_CARRIED = 0
_PLACES = {TASK: 1, BEAT: 2}
_EVERY = {TASK: 1, BEAT: int(beat.EVERY - fleet.EVERY)}
"""Seconds for which a mark counts as new: one is written only when the worker's row is renewed."""


class LastTasks:
    """The moments of the last task, and of the last one that beat asked for, of one worker."""

    def __init__(self) -> None:
        self._shared: memoryview[float] | None = None

    def share(self) -> None:
        """Begin to share the moments with the children that are forked from now on."""
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")

    def carry(self, *, is_well: bool) -> None:
        """Say whether the parent writes down what it is told from now on."""
        if self._shared is not None:
            self._shared[_CARRIED] = is_well

    def tell(self, name: str) -> bool:
        """Tell that such a task has come; return whether the parent is enough to write that down.

        It is not after a while without such a task: then the first one is to be seen at once.
        """
        if (shared := self._shared) is None:
            return False
        before, shared[_PLACES[name]] = shared[_PLACES[name]], (now := steady())
        return bool(shared[_CARRIED]) and now - before < fleet.EVERY

    def told(self) -> Sequence[Told]:
        """Return the marks that have been earned, for `fleet.renew_and_look`."""
        if (shared := self._shared) is None:
            return []
        now = steady()
        earned = [(name, shared[place]) for name, place in _PLACES.items() if shared[place]]
        return [(name, now - moment, _EVERY[name]) for name, moment in earned]
