"""Which servers this process cannot reach, although another host can. It is lost with the process.

A breaker is shared by all workers. So one host without a way to a server, such as a host with an
old list of authorities, must not open it for all. The process tries such a server again without an
email, and one batch at a time: where packets are dropped, a try takes as long as its time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WITNESS = 10.0
"""Seconds for which an email that another host has sent over a server speaks for the server."""

WITNESS_MAX = 120.0
"""The same, where this host could not reach the server since before that email."""

AVOID = 10.0
"""Seconds for which this process claims nothing for a server whose breaker it could not open."""

CROWDED = 30.0
"""Seconds for which this process opens no further session with a server that refused one more."""

PAUSE_FIRST, PAUSE_MAX = 10.0, 60.0
"""Seconds until this process tries the server again: after its first failure, and at most."""


@dataclass(slots=True)
class _Failing:
    since: float
    failures: int = 0
    until: float = 0.0


class Reach:
    """Remembers the sessions that this process could not open, by server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failing: dict[str, _Failing] = {}
        self._avoided: dict[str, float] = {}  # by server: until when nothing is claimed for it
        self._crowded: dict[str, float] = {}  # by server: until when no further session is opened
        self._tried: dict[str, object] = {}  # by server: the try that is under way

    def was_left(self, server: str) -> bool:
        """Return whether this process left the server, and has opened no session with it since."""
        found = self._failing.get(server)
        return found is not None and found.failures > 0

    def is_left_for_now(self, server: str) -> bool:
        """Return whether this process is to leave the server to other hosts for now."""
        found = self._failing.get(server)
        return found is not None and self._clock() < found.until

    def witness_seconds(self, server: str) -> float:
        """Note a failure; return how old another host's sent email may be to speak for the server.

        In an outage the emails that were sent before it soon no longer do. What another host has
        sent since this one's first failure shows that the server is there.
        """
        failing = self._failing.setdefault(server, _Failing(self._clock()))
        return min(WITNESS_MAX, max(WITNESS, self._clock() - failing.since))

    def leave(self, server: str) -> float:
        """Leave the server to other hosts; return for how many seconds."""
        failing = self._failing.setdefault(server, _Failing(self._clock()))
        seconds = min(PAUSE_MAX, PAUSE_FIRST * 2.0 ** min(failing.failures, 10))
        failing.failures += 1
        failing.until = self._clock() + seconds
        return seconds

    def avoid(self, server: str) -> None:
        """Claim nothing for the server for a while: it is at fault, and its breaker stays closed.

        Another transaction has locked the breaker's row. Without a pause the same emails would be
        claimed at once.
        """
        self._avoided[server] = self._clock() + AVOID

    def is_avoided(self, server: str) -> bool:
        """Return whether this process claims nothing for the server for now."""
        return self._clock() < self._avoided.get(server, 0.0)

    def crowd(self, server: str) -> bool:
        """Open no further session with the server for a while; return whether it is the first time.

        It has refused one more, but takes emails over those that this process has.
        """
        is_first = server not in self._crowded
        self._crowded[server] = self._clock() + CROWDED
        return is_first

    def is_crowded(self, server: str) -> bool:
        """Return whether this process opens no further session with the server for now."""
        return self._clock() < self._crowded.get(server, 0.0)

    @contextmanager
    def trying(self, servers: Iterable[str]) -> Iterator[str | None]:
        """Yield the server that is to be tried again now; None where no pause is over.

        No other batch of this process tries it during the block.
        """
        names, mine = list(servers), object()
        try:
            # `setdefault` is one step: of two threads only one finds its own try.
            yield next(
                (
                    name
                    for name in names
                    if self._is_due(name) and self._tried.setdefault(name, mine) is mine
                ),
                None,
            )
        finally:  # also where a task's time limit strikes before the block
            for name in names:
                if self._tried.get(name) is mine:
                    del self._tried[name]

    def _is_due(self, server: str) -> bool:
        return self.was_left(server) and not self.is_left_for_now(server)

    def opened(self, server: str) -> None:
        """Note that this process has opened a session with the server."""
        self._failing.pop(server, None)
