"""The way of one batch: the server it goes over, and the next one where that halts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from uuid import UUID

from ..domain.rate import Rate
from ..domain.routing import arrange
from ..domain.servers import ServerSettings
from ..smtp.connection import Connection
from ..store.connections import take_server
from ..store.rows import Batch
from .persistence import outlast
from .refusals import Refusals
from .runtime import Runtime


class Way:
    """Holds one server at a time, with a connection and a place under its cap.

    A probe goes over the server that it probes, any other batch over those of its route whose
    breaker was closed when it began. As a context manager it puts the connection back.
    """

    def __init__(self, runtime: Runtime, token: UUID, batch: Batch) -> None:
        self._runtime = runtime
        self._token = token
        self._halted = batch.halted
        servers = runtime.routes.servers_of(batch.route)
        # Of a route with one server the lane has the rate, also where the others are halted.
        self._several = len(servers) > 1
        self._caps = _caps(servers, batch.ramps)
        if batch.probed is None:
            servers = arrange(servers, batch.halted, runtime.random)
        else:
            servers = tuple(server for server in servers if server.name == batch.probed)
        self._left = {server.name: server for server in servers}
        self._held: str | None = None
        self._lent = ExitStack()
        self._refusals: dict[str, Refusals] = {}
        self.server: ServerSettings
        self.connection: Connection
        self.refusals: Refusals  # by this server

    @property
    def buckets(self) -> Mapping[str, Rate]:
        """The server's own rate, where the lane does not know which server a mail will take."""
        rate = self.server.rate if self._several else None
        return {} if rate is None else {self.server.bucket: rate}

    @property
    def halted(self) -> bool:
        """Whether the server's breaker stood open when the batch began: success closes it."""
        return self.server.name in self._halted

    @property
    def watched(self) -> Collection[Refusals]:
        """What each server that the batch went over has refused."""
        return self._refusals.values()

    @property
    def rates(self) -> Mapping[str, Rate]:
        """The rates of all servers between which the batch may choose; none without a choice."""
        left = self._left.values() if len(self._left) > 1 else ()
        return {server.bucket: server.rate for server in left if server.rate is not None}

    def go_on(self) -> bool:
        """Leave the server for good and take the next that has room; False where none is left."""
        if self._held is not None:
            self._left.pop(self._held, None)
        return self._take(list(self._left))

    def choose(self, waits: Mapping[str, float]) -> bool:
        """Take the first server whose rate lets a mail go, or does so soonest; False: none."""
        names = sorted(self._left, key=lambda name: waits.get(self._left[name].bucket, 0.0))
        return names[0] == self._held or self._take(names)

    def _take(self, names: list[str]) -> bool:
        self._lent.close()
        held = self._held
        database = self._runtime.database
        name = outlast(lambda: take_server(database, self._token, names, self._caps, held=held))
        if name is None:
            return False
        self._held, self.server = name, self._left[name]
        self.connection = self._lent.enter_context(self._runtime.connection(self.server))
        self._lent.callback(self.connection.rest)  # only while it is lent to us
        if name not in self._refusals:
            self._refusals[name] = Refusals(self._runtime, self.server, halted=self.halted)
        self.refusals = self._refusals[name]
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lent.close()


def _caps(servers: Sequence[ServerSettings], ramps: Mapping[str, int]) -> dict[str, int]:
    """Return how many batches each server takes at once, where that is bounded.

    A ramp is a cap for some seconds: a sweep knows its own route's batches only, and not which of
    its servers they go over.
    """
    bounds = ((s.name, (s.connections, ramps.get(s.name))) for s in servers)
    known = {name: [bound for bound in both if bound is not None] for name, both in bounds}
    return {name: min(both) for name, both in known.items() if both}
