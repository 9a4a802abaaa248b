"""The database's clock in a test's hands: it stands still, or moves as far as a worker would wait.

What a test then measures is what was waited for, on a busy machine as on an idle one.
"""

from __future__ import annotations

import time
from threading import Condition

from outbox.store.schema.clock import Offset
from tests.support.shop.shop import Shop

_TICK = 0.001  # seconds: the clock of SQLite shows no less


class Pauses:
    """The waits of one thread, and how long each was."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.made: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.made.append(seconds)
        self.shop.later(seconds + _TICK)


class Together:
    """The waits of several threads: the clock moves on when all of them wait, to the next end."""

    def __init__(self, shop: Shop, threads: int) -> None:
        self.moved = 0.0
        self._shop, self._running = shop, threads
        self._ends: list[float] = []
        self._turn = Condition()

    def __call__(self, seconds: float) -> None:
        with self._turn:
            end = self.moved + seconds + _TICK
            self._ends.append(end)
            self._move_on()
            assert self._turn.wait_for(lambda: self.moved >= end, 60)

    def leave(self) -> None:
        """One thread less that could wait."""
        with self._turn:
            self._running -= 1
            self._move_on()

    def _move_on(self) -> None:
        if self._ends and len(self._ends) == self._running:
            step = min(self._ends) - self.moved
            self.moved += step
            self._shop.later(step)
            self._ends = [end for end in self._ends if end > self.moved]
            self._turn.notify_all()


class _Still(Offset):
    """The offset of a clock that moves by leaps only: what passes meanwhile is taken off again."""

    _began: float
    _leapt: float

    @property
    def seconds(self) -> float:
        return self._leapt - (time.monotonic() - self._began)

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._leapt += seconds - self.seconds


def stand_still(shop: Shop) -> Shop:
    """Stop the clock of a shop's database until `later`; return the shop."""
    offset = shop.database._offset
    before = vars(offset).pop("seconds")
    offset.__class__ = _Still
    assert isinstance(offset, _Still)
    offset._began, offset._leapt = time.monotonic(), before
    return shop
