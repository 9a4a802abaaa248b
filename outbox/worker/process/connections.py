"""The SMTP connections of a process: lent to one batch after the other, and open between them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

from ...domain.config.servers import ServerSettings
from ...domain.delivery.reach import Reach
from ...smtp.connection import Connection
from ...smtp.session_limits import Taught

FAREWELLS = 4.0
"""Seconds, about, that a process takes at its end to send QUIT over all its connections."""


class Connections:
    """Lends connections to servers, and knows how many of them have a session."""

    def __init__(
        self,
        servers: Sequence[ServerSettings],
        reach: Reach,
        clock: Callable[[], Callable[[], float]],
    ) -> None:
        """`clock` returns the clock of a new connection, which asks it often for each email."""
        self._servers = servers
        self._reach = reach
        self._clock = clock
        self._idle: dict[str, list[Connection]] = defaultdict(list)
        self._lent: dict[str, set[Connection]] = defaultdict(set)
        self._taught: dict[str, Taught] = defaultdict(Taught)
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, server: ServerSettings) -> Iterator[Connection]:
        """Lend a connection to a server; it stays open for the next batch.

        For a server with a connection cap it is closed, because the idle connections of many
        workers would exceed the cap. End the batch's lease only after that, so that the next batch
        does not exceed it either.
        """
        with self._lock:
            lent = _take_one(self._idle[server.name]) or self._new(server)
            self._lent[server.name].add(lent)
        try:
            yield lent
        finally:
            if server.connections is not None:
                lent.close()
            with self._lock:
                self._lent[server.name].discard(lent)
                self._idle[server.name].append(lent)

    def has_sessions(self, server: str) -> bool:
        """Return whether this process has sessions with a server that has no cap."""
        is_capped = any(one.name == server and one.connections is not None for one in self._servers)
        return not is_capped and self._sessions(server)[0] > 0

    def spare(self, server: str) -> float:
        """Return how many more batches of this process the server takes now.

        While it refuses further sessions, each of those that are open takes one.
        """
        if not self._reach.is_crowded(server):
            return inf
        open_, lent = self._sessions(server)
        return max(0, max(1, open_) - lent)

    def close_idle(self) -> None:
        """Close the connections that no batch is using.

        Each server gets a moment to answer QUIT, and all together get `FAREWELLS` seconds: a
        process may have a hundred connections to a silent server.
        """
        with self._lock:
            idle, self._idle = self._idle, defaultdict(list)
        now = self._clock()
        deadline = now() + FAREWELLS
        for connection in (lent for connections in idle.values() for lent in connections):
            if now() > deadline:
                return  # the end of the process closes the others
            connection.close()

    def renew_lock(self) -> None:
        """Make a new lock after a fork: another thread of the parent may have held the old one.

        The parent's batches go on there: no connection is lent here. Those that were idle are
        opened anew, because a `Connection` uses no other process's session.
        """
        self._lock = threading.Lock()
        self._lent.clear()

    def _new(self, server: ServerSettings) -> Connection:
        return Connection(server, clock=self._clock(), taught=self._taught[server.name])

    def _sessions(self, server: str) -> tuple[int, int]:
        """Return how many sessions are open, and how many connections batches have."""
        with self._lock:
            lent, idle = self._lent[server], self._idle[server]
            return sum(one.has_session for one in (*lent, *idle)), len(lent)


def _take_one(idle: list[Connection]) -> Connection | None:
    """Take a connection out of these, one with a session first; return None if there is none.

    A server may refuse further sessions: then only those that are open send.
    """
    for at in reversed(range(len(idle))):
        if idle[at].has_session:
            return idle.pop(at)
    return idle.pop() if idle else None
