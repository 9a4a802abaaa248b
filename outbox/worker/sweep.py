"""One sweep: rescue, expire, claim, and hand the batches out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from ..domain.claims import AHEAD, next_opening, share
from ..domain.lanes import route_of
from ..domain.priority import Priority
from ..domain.servers import ServerSettings
from ..store import breaker
from ..store.claim import claim, claim_shares
from ..store.expire import expire
from ..store.rescue import rescue
from ..store.rows import Claim
from ..store.survey import Survey, survey
from .queues import SEND_QUEUES
from .runtime import Runtime

_log = logging.getLogger("outbox")

_LOOKS = 8
"""Surveys of one sweep at most, where one finds lanes that the settings no longer name."""


def sweep(
    runtime: Runtime,
    hand_out: Callable[[Claim], None],
    wake: Callable[[float], None] = lambda _: None,
) -> int:
    """Claim what is due, as far as slots are free, and hand each batch out; return the mails.

    Sweeps may overlap and come as often as they like: one that finds nothing is one statement, and
    no two claim the same mail. `wake` is asked for a sweep in so many seconds, when a lane opens.
    """
    settings = runtime.settings
    state = _look(runtime)
    if state.overdue:
        rescue(runtime.database, settings, random=runtime.random)
    if state.expired:
        expire(runtime.database)
    claims = _claims(runtime, state)
    for made in claims:
        hand_out(made)
    if (seconds := next_opening(state.lags)) is not None:
        wake(seconds)
    return sum(made.mails for made in claims)


def publish(runtime: Runtime) -> Callable[[Claim], None]:
    """Return how a sweep in Celery hands a batch out: as a task that carries its token only.

    Where the broker fails the mails stay claimed: delivery is uncertain, and the lease decides.
    """

    def hand_out(made: Claim) -> None:
        try:
            runtime.publish("outbox.send", SEND_QUEUES[made.priority], str(made.token))
        except Exception as error:  # noqa: BLE001  (any broker, any error: the lease decides)
            _log.warning("outbox: a batch was not published (%s)", type(error).__name__)

    return hand_out


def _look(runtime: Runtime) -> Survey:
    settings, lanes = runtime.settings, runtime.lanes
    for _ in range(_LOOKS):
        state = _survey(runtime, settings.slots * settings.batch)
        if not state.strays:
            break
        lanes.adopt(state.strays)
    return state


def _survey(runtime: Runtime, limit: int) -> Survey:
    """Look from the marks of the last sweep on; where that tells too little, at everything."""
    database, lanes, servers = runtime.database, runtime.lanes, runtime.servers
    since = runtime.low_water.marks() if database.dialect == "postgresql" else {}
    state = survey(database, lanes, servers, limit=limit, since=since)
    if not runtime.low_water.note(since, state.due, state.first, limit):
        state = survey(database, lanes, servers, limit=limit)
        runtime.low_water.note({}, state.due, state.first, limit)
    return state


def _claims(runtime: Runtime, state: Survey) -> list[Claim]:
    if not state.due:
        return []
    settings, rooms = runtime.settings, _rooms(runtime, state)
    shares = share(
        state.due,
        state.flight,
        lanes=runtime.lanes,
        lags=state.lags,
        slots=settings.slots,
        batch=settings.batch,
        window=settings.window,
        rooms=rooms,
    )
    probes = _probes(runtime, state)
    claims = claim_shares(runtime.database, shares, lease=settings.lease, since=state.first)
    return probes + claims


def _rooms(runtime: Runtime, state: Survey) -> dict[str, float]:
    """Return how many batches each route's usable servers take at once; 0 where none is usable."""
    rooms: dict[str, float] = {}
    for lane, _ in state.due:
        servers = runtime.routes.servers_of(route_of(lane))
        rooms[route_of(lane)] = sum(_room(state, server) for server in servers)
    return rooms


def _room(state: Survey, server: ServerSettings) -> float:
    limit, cap = state.servers[server.name], server.connections
    if limit in (breaker.OPEN, breaker.HALF_OPEN):
        return 0
    # A lane of several servers may be open while the one that is left is not.
    if server.rate is not None and state.lags.get(server.bucket, -inf) > AHEAD:
        return 0
    return min(inf if limit is None else limit, inf if cap is None else cap)


def _probes(runtime: Runtime, state: Survey) -> list[Claim]:
    """Claim one mail for each server whose breaker waits for a probe, the most urgent one."""
    database, claims = runtime.database, list[Claim]()
    for name in (name for name, limit in state.servers.items() if limit == breaker.HALF_OPEN):
        ways = [way for way in state.due if name in _names(runtime, way[0])]
        if not ways or not breaker.probe(database, name):
            continue
        lane, priority = min(ways, key=_urgency)
        made = claim(database, priority, 1, lease=runtime.settings.lease, lane=lane)
        for probe in made:
            breaker.probing(database, name, probe.token)
        claims += made
    return claims


def _names(runtime: Runtime, lane: str) -> list[str]:
    return [server.name for server in runtime.routes.servers_of(route_of(lane))]


def _urgency(way: tuple[str, Priority]) -> tuple[Priority, str]:
    return way[1], way[0]
