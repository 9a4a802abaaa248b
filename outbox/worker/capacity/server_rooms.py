"""How many batches each server takes now, and so each route: what a claim may hand out."""

from __future__ import annotations

from math import inf

from ...domain.config.servers import ServerSettings
from ...domain.scheduling.lanes import AHEAD, route_of_lane
from ...store.control.connection_caps import full_for_now
from ...store.queries.sweep import server_limits
from ...store.queries.sweep.sweep_snapshot import Snapshot
from ..process.runtime import Runtime


def rooms(runtime: Runtime, snapshot: Snapshot) -> dict[str, float]:
    """Return how many batches each route's usable servers take at once, 0 where none is usable."""
    routes = {route_of_lane(lane) for lane, _ in snapshot.due}
    return {
        route: sum(_room(runtime, snapshot, server) for server in runtime.routes.servers_of(route))
        for route in routes
    }


def is_usable(runtime: Runtime, snapshot: Snapshot, server: ServerSettings) -> bool:
    """Return whether the server takes any batch now; where it waits for a probe, it does not."""
    return _room(runtime, snapshot, server) > 0


def _is_avoided(runtime: Runtime, server: ServerSettings) -> bool:
    """Return whether this process did not get a row that it needs to send over this server."""
    if runtime.reach.is_avoided(server.name):
        return True
    return server.connections is not None and server.name in full_for_now(runtime.database)


def _room(runtime: Runtime, snapshot: Snapshot, server: ServerSettings) -> float:
    limit, cap = snapshot.servers[server.name], server.connections
    if limit in (server_limits.OPEN, server_limits.HALF_OPEN) or _is_avoided(runtime, server):
        return 0
    # The lane of a route with several servers may be open while the only usable one is over its
    # rate.
    if server.rate is not None and snapshot.lags.get(server.bucket, -inf) > AHEAD:
        return 0
    if (spare := runtime.connections.spare(server.name)) < inf:
        spare += _in_flight(runtime, snapshot, server)
    return min(inf if limit is None else limit, inf if cap is None else cap, spare)


def _in_flight(runtime: Runtime, snapshot: Snapshot, server: ServerSettings) -> int:
    """Return how many batches are in flight that may go over the server."""
    lanes = ((route_of_lane(lane), found.batches) for (lane, _), found in snapshot.flight.items())
    return sum(n for route, n in lanes if server in runtime.routes.servers_of(route))
