"""Chooses the server that a batch goes over, and the next one where that fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Self
from uuid import UUID

from ...domain.config.routing import arrange
from ...domain.config.servers import ServerSettings
from ...domain.scheduling.lanes import route_of_lane
from ...domain.scheduling.token_bucket import Rate
from ...smtp.connection import Connection
from ...store.control.circuit_breaker import read
from ...store.control.connection_caps import take_server
from ...store.records import Batch, Breaker
from ..capacity.claimable import Mine
from ..process.retry_writes import until_written
from ..process.runtime import Runtime
from .watch.server_watch import Watch


class ServerChoice:
    """Takes one server at a time, with a connection and a place under its cap.

    A batch goes over the servers of its route whose breaker was closed when it began. A probe goes
    first over the server that it probes. On exit it puts the connection back.
    """

    def __init__(
        self,
        runtime: Runtime,
        token: UUID,
        batch: Batch,
        *,
        progress: Callable[[], object],
        goes_on: Callable[[], bool],
        stays: Callable[[], bool],
    ) -> None:
        """`progress`, `goes_on` and `stays` are handed to each connection (`Connection.report`)."""
        self._runtime = runtime
        self._token = token
        self._batch = batch
        self._progress = progress
        self._goes_on = goes_on
        self._stays = stays
        servers = runtime.routes.servers_of(batch.route)
        # The lane has the rate of a route's only server. Halted servers are counted here, too.
        self._several = len(servers) > 1
        self._caps = _caps(servers, batch.ramps)
        ordered = _order(runtime, batch, servers)
        reach, probed = runtime.reach, batch.probed
        # A server that this process has left gets no emails from it before a session has opened.
        # A probe of it is such a session, once its pause is over.
        is_away = reach.was_left if probed is None else reach.is_left_for_now
        self._servers = {one.name: one for one in ordered if not is_away(one.name)}
        self.is_cut_off = bool(ordered) and not self._servers
        """Whether other hosts reach the batch's servers, and this one does not."""
        self._unreached = {one.name: one for one in ordered if probed is None and is_away(one.name)}
        self._taken: str | None = None
        self._lent = ExitStack()
        self._watches: dict[str, Watch] = {}
        self.server: ServerSettings
        self.connection: Connection
        self.watch: Watch  # the watch over this server

    @property
    def buckets(self) -> Mapping[str, Rate]:
        """The server's own rate, where the lane does not know an email's server; else nothing."""
        rate = self.server.rate if self._several else None
        return {} if rate is None else {self.server.bucket: rate}

    @property
    def watches(self) -> Collection[Watch]:
        """The watch over each server that the batch went over."""
        return self._watches.values()

    def watch_of(self, server: str) -> Watch:
        """Return the watch over a server that the batch went over."""
        return self._watches[server]

    @property
    def servers_left(self) -> int:
        """How many servers are left to the batch."""
        return len(self._servers)

    @property
    def rates(self) -> Mapping[str, Rate]:
        """The rates of the servers that are left to the batch; empty where only one is left."""
        left = self._servers.values() if len(self._servers) > 1 else ()
        return {server.bucket: server.rate for server in left if server.rate is not None}

    def take_first(self) -> bool:
        """Take the first server that has room; return False where none is left."""
        return self._take_or_keep(list(self._servers))

    def take_soonest(self, waits: Mapping[str, float]) -> bool:
        """Take the server whose rate lets an email go soonest; return False where none is left."""
        names = sorted(self._servers, key=lambda name: waits.get(self._servers[name].bucket, 0.0))
        return self._take_or_keep(names)

    def take_next(self, tried: Collection[str]) -> bool:
        """Take the next server that was not `tried`, for a part of a window; False where none."""
        names = [name for name in self._servers if name not in tried]
        return bool(names) and self._take(names)

    @contextmanager
    def unreached(self) -> Iterator[bool]:
        """Take a server that this process has left, to try it again in the block; yield whether.

        It is True at most once in a pause, and for one batch of the process.
        """
        with self._runtime.reach.trying(self._unreached) as name:
            yield name is not None and self._take([name])

    def drop(self) -> None:
        """Leave the server for good: no more emails of this batch go over it."""
        if self._taken is not None:
            self._servers.pop(self._taken, None)

    def _take_or_keep(self, names: list[str]) -> bool:
        """Take the first of these that has room; keep it if the batch has it already."""
        return bool(names) and (names[0] == self._taken or self._take(names))

    def _take(self, names: list[str]) -> bool:
        self._lent.close()
        current, self._taken = self._taken, None
        if self._batch.probed is None:
            names = [name for name in names if self._runtime.connections.spare(name) > 0]
        if not names:
            return False
        database = self._runtime.database
        name = until_written(
            lambda: take_server(database, self._token, names, self._caps, current=current)
        )
        if name is None:
            return False
        self._taken, self.server = name, (self._servers | self._unreached)[name]
        self.connection = self._lent.enter_context(self._runtime.connections.lend(self.server))
        self.connection.report(self._progress, self._goes_on, self._stays)
        if name == self._batch.probed:
            self.connection.close()  # what failed may be the session: a probe has one of its own
        self._lent.callback(self.connection.rest)  # runs before we put the connection back
        if name not in self._watches:
            self._watches[name] = self._watch(name, self._batch.breakers.get(name))
        self.watch = self._watches[name]
        return True

    @property
    def mine(self) -> Mine:
        """What the batch has in flight."""
        return Mine.of(self._batch)

    def watch_anew(self) -> None:
        """Watch the server by its breaker as it is now: the batch may have begun long ago."""
        database, name = self._runtime.database, self.server.name
        breakers = until_written(lambda: database.read(partial(read, database=database)))
        self.watch = self._watch(name, breakers.get(name))

    def _watch(self, name: str, breaker: Breaker | None) -> Watch:
        return Watch(
            self._runtime,
            name,
            breaker=breaker,
            suspect=self._batch.suspects.get(name),
            lanes=partial(_lanes_of, self._runtime, self._batch.lane, name),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._lent.close()


def _order(
    runtime: Runtime, batch: Batch, servers: Sequence[ServerSettings]
) -> list[ServerSettings]:
    probed = [server for server in runtime.servers if server.name == batch.probed]
    if batch.probed is not None and not batch.emails:
        return probed  # without an email the batch's lane has no meaning
    return [*probed, *arrange(servers, batch.halted_servers, runtime.random)]


def _lanes_of(runtime: Runtime, own: str, server: str) -> list[str]:
    """Return the lanes whose emails may go over this server: the batch's `own`, and the routes'.

    Lanes of domains with a rate of their own are left out, because there may be thousands.
    """
    routes = runtime.routes
    return [
        lane
        for lane in dict.fromkeys((own, *runtime.lanes.routes))
        if any(server == one.name for one in routes.servers_of(route_of_lane(lane)))
    ]


def _caps(servers: Sequence[ServerSettings], ramps: Mapping[str, int]) -> dict[str, int]:
    """Return how many batches each server takes at once, where that is bounded.

    A ramp is a cap for some seconds. It is applied here because a sweep knows only the batches of
    its route, and not which of the route's servers they go over.
    """
    bounds = ((s.name, (s.connections, ramps.get(s.name))) for s in servers)
    known = {name: [bound for bound in both if bound is not None] for name, both in bounds}
    return {name: min(both) for name, both in known.items() if both}
