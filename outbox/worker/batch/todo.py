"""The emails of a window that a server is still to get, and the one that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from ...store.records import ClaimedEmail
from .result_factory import Outgoing

SLOW = 20.0
"""Seconds of its server after which an email is slow: the emails behind it are given back."""


class Stopwatch:
    """Counts the seconds that are spent in its blocks."""

    __slots__ = ("_clock", "_since", "_spent")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None  # when the block began that is open
        self._spent = 0.0  # in the blocks before that

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *_: object) -> None:
        since, self._since = self._since, None
        if since is not None:
            self._spent += self._clock() - since

    def reset(self) -> None:
        """Begin anew."""
        self._since, self._spent = None, 0.0

    @property
    def seconds(self) -> float:
        """The seconds so far. Another thread may ask."""
        since = self._since
        return self._spent if since is None else self._spent + self._clock() - since


class Todo:
    """The sending thread takes one after the other. The heartbeat's may take all that are left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self.left: list[Outgoing] = []
        """Those that are left. The heartbeat's thread may put another list in its place."""
        self.current: Outgoing | None = None  # the one that is under way
        self.at_server = Stopwatch(clock)
        """Counts the seconds that it is at its server. In others it may wait for the database, as
        for a read: that would not be the server's silence."""
        self.is_relieved = False  # those behind a slow one were taken out

    def take(self, pick: Callable[[list[Outgoing]], int] | None = None) -> Outgoing | None:
        """Take the email at the place that `pick` returns, else the first; None if none is left."""
        with self._lock:
            if not self.left:
                return None
            out = self.current = self.left.pop(pick(self.left) if pick else 0)
            self.at_server.reset()
            return out

    def empty(self) -> list[Outgoing]:
        """Take all that are left."""
        with self._lock:
            left, self.left = self.left, []
        return left

    def put_before(self, emails: Iterable[Outgoing]) -> None:
        """Have these be sent before those that are left."""
        with self._lock:
            self.left = [*emails, *self.left]

    def relieve(self) -> tuple[ClaimedEmail, list[Outgoing]] | None:
        """Take out the emails behind a slow one; return it and them.

        It returns None where no email is slow, or where it was done before.
        """
        with self._lock:
            if (slow := self.slow) is None or self.is_relieved:
                return None
            self.is_relieved = True
            waiting, self.left = self.left, []
        return slow, waiting

    @property
    def slow(self) -> ClaimedEmail | None:
        """The email that has been at its server for `SLOW` seconds or more, or None."""
        current = self.current
        return current.email if current is not None and self.seconds >= SLOW else None

    @property
    def seconds(self) -> float:
        """The seconds that the email under way has been at its server so far."""
        return self.at_server.seconds
