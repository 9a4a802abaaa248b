"""The emails of a window that a server is still to get, and the one that is under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ...store.records import ClaimedEmail
from .result_factory import Outgoing

SLOW = 20.0
"""Seconds of its server after which an email is slow: the emails behind it are given back."""


class Todo:
    """The sending thread takes one after the other. The heartbeat's may take all that are left."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.left: list[Outgoing] = []
        """Those that are left. The heartbeat's thread may put another list in its place."""
        self.current: Outgoing | None = None  # the one that is under way
        self._since: float | None = None  # when its server began with it, on our clock
        self._spent = 0.0  # its seconds with its server before that
        self.is_relieved = False  # those behind a slow one were taken out

    def take(self, pick: Callable[[list[Outgoing]], int]) -> Outgoing | None:
        """Take the email at the place that `pick` returns; return None where none is left."""
        with self._lock:
            if not self.left:
                return None
            out = self.current = self.left.pop(pick(self.left))
            self._since, self._spent = None, 0.0
            return out

    @contextmanager
    def at_server(self) -> Iterator[None]:
        """Count the block's seconds. In others the email may wait for the database, as for a read.

        That would not be the server's silence.
        """
        self._since = began = self._clock()
        try:
            yield
        finally:
            self._since = None
            self._spent += self._clock() - began

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
        since = self._since  # the heartbeat's thread asks, too
        return self._spent if since is None else self._spent + self._clock() - since
