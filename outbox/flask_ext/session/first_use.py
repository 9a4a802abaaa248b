"""Listens to an engine from a session's first use of it on, while other threads may be using it.

SQLAlchemy goes through an engine's listeners without a lock. If one is added meanwhile, the
statement of the other thread fails with "deque mutated during iteration". Where there are none,
nobody goes through them, and one can be added. Where the app has listeners of its own, the outbox
listens to the connection of each session, which is used by one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Dialect, Engine, event

Wanted = tuple[Engine | Dialect, str, Callable[..., Any]]
"""What is listened to, the event's name, and the listener."""

_Listener = tuple[str, Callable[..., Any]]


class FirstUse:
    """Knows the engines that sessions have used, and what else each connection of theirs needs."""

    def __init__(
        self,
        place: Callable[[Connection | Engine], Engine | Dialect],
        wanted: Callable[[Connection | Engine], Iterable[Wanted]],
    ) -> None:
        """`wanted` tells what is to be heard, once for each engine or dialect that is a `place`."""
        self._place = place
        self._wanted = wanted
        self._left: WeakKeyDictionary[Engine | Dialect, list[_Listener]] = WeakKeyDictionary()
        self.renew_lock()
        _all.add(self)

    def renew_lock(self) -> None:
        """Make a new lock after a fork: one that another thread held would never be released."""
        self._lock = threading.Lock()

    def listen(self, connection: Connection) -> None:
        """Have the statements of a session's connection heard, before it executes any."""
        left = self._left.get(self._place(connection))
        if left is None:
            left = self._begin(connection)
        for name, listener in left:
            event.listen(connection, name, listener)

    def prepare(self, engine: Engine) -> None:
        """Have an engine heard that may have been used already, but by no session that is known."""
        if engine not in self._left:
            self._begin(engine)

    def _begin(self, connection: Connection | Engine) -> list[_Listener]:
        """Listen where nobody else does; return what each connection is to be asked for."""
        place = self._place(connection)
        # Another session must not go on before all is heard: its first statement may be the write.
        with self._lock:
            if (known := self._left.get(place)) is not None:
                return known
            left = [one[1:] for one in self._wanted(connection) if not _heard(*one)]
            self._left[place] = left
            return left


def _heard(target: Engine | Dialect, name: str, listener: Callable[..., Any]) -> bool:
    if getattr(target.dispatch, name).listeners:  # those of all engines are in a list of their own
        return False
    event.listen(target, name, listener)
    return True


def _renew_locks() -> None:
    for one in list(_all):
        one.renew_lock()


_all: WeakSet[FirstUse] = WeakSet()
if hasattr(os, "register_at_fork"):  # Windows has neither it nor forks
    os.register_at_fork(after_in_child=_renew_locks)
