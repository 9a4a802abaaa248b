"""Filled databases that one test uses after another: emptied, each is as a new one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from typing import ClassVar, Self

from tests.support.servers.server import Fill, Server
from tests.support.waiting import wait_until

_SECONDS = 0.2  # a session whose client has gone ends within a few milliseconds


class Watch(ABC):
    """Knows what has been written to one database, by way of a session of its own.

    If that session is ended, as it is when the server starts again, nobody knows any more.
    """

    errors: ClassVar[type[Exception]]
    """What the driver raises when the session has ended."""

    @abstractmethod
    def __init__(self, url: str) -> None:
        """Open its session to a database that its `fill` has just left."""

    @abstractmethod
    def begin(self) -> None:
        """Note how things stand: from now on a test may write."""

    @abstractmethod
    def others(self) -> int:
        """Return how many others are connected to the database."""

    @abstractmethod
    def empty(self) -> bool:
        """Undo what was written to the tables, or return False if more was written than rows."""

    @abstractmethod
    def close(self) -> None:
        """End its session."""


class LendingServer(Server):
    """A server of databases, which empties the filled ones that tests give back, and keeps them.

    One is dropped if more has changed in it than rows, or if anybody stays connected: that may be
    a thread of this test, and would write to the database of the next.
    """

    watch: ClassVar[type[Watch]]

    def __enter__(self) -> Self:
        self._watches: dict[str, tuple[Fill, Watch]] = {}
        self._free: defaultdict[Fill, list[str]] = defaultdict(list)
        return super().__enter__()

    def __exit__(self, *reason: object) -> None:
        for _, watch in self._watches.values():
            watch.close()
        super().__exit__(*reason)

    @abstractmethod
    def new_database(self, fill: Fill | None = None) -> str:
        """Return the SQLAlchemy URL of a fresh database, empty or filled by `fill`."""

    @abstractmethod
    def drop_database(self, url: str) -> None:
        """Remove the database, also when somebody is still connected to it."""

    def lend_database(self, fill: Fill) -> str:
        """Return the URL of a database as `fill` leaves it; give it to `take_back` in the end.

        It is kept only if `fill` leaves no rows. The watch's session may be connected to it.
        """
        while self._free[fill]:
            url = self._free[fill].pop()
            if self._begun(url):
                return url
        url = self.new_database(fill)
        self._watches[url] = fill, self.watch(url)
        self._watches[url][1].begin()
        return url

    def take_back(self, url: str) -> None:
        """Empty the database and keep it, or drop it."""
        fill, watch = self._watches[url]
        if _emptied(watch):
            self._free[fill].append(url)
        else:
            self._give_up(url)

    def _begun(self, url: str) -> bool:
        _, watch = self._watches[url]
        try:
            watch.begin()
        except watch.errors:
            self._give_up(url)
            return False
        return True

    def _give_up(self, url: str) -> None:
        _, watch = self._watches.pop(url)
        watch.close()
        self.drop_database(url)


def _emptied(watch: Watch) -> bool:
    try:
        wait_until(lambda: not watch.others(), _SECONDS, "the sessions to end")
        return watch.empty()
    except (TimeoutError, watch.errors):
        return False
