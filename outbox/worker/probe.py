"""Claims a sweep's probes: each asks whether one server with a half-open breaker is back."""

from __future__ import annotations

from collections.abc import Callable

from ..domain.config.servers import ServerSettings
from ..domain.delivery.breaker_timing import Cause
from ..domain.priority import Priority
from ..domain.scheduling.claim_plan import LaneKey
from ..domain.scheduling.lanes import route_of_lane
from ..store.control import circuit_breaker
from ..store.control.blame.comparison import (
    Candidate,
    candidates,
    content_of,
    first_free,
    ranked_probes,
)
from ..store.control.passed_over import passed_over
from ..store.queries import claimed_batch
from ..store.queries.sweep.server_limits import HALF_OPEN
from ..store.queries.sweep.sweep_snapshot import Snapshot
from ..store.records import Breaker, Claim
from ..store.transitions.claim import claim_probe
from .process.runtime import Runtime


def claim_probes(
    runtime: Runtime, snapshot: Snapshot, *, is_usable: Callable[[ServerSettings], bool]
) -> list[Claim]:
    """Claim a probe for each server that is due for one and has emails waiting for it.

    Nothing is sent here: a send task makes the probe. Where no session could be opened, the probe
    opens only a session and risks no email. Where every email was halted, the probe is the email
    that is most likely to pass, if one may be risked.
    """
    claims: list[Claim] = []
    for server in runtime.servers:
        if snapshot.servers[server.name] != HALF_OPEN:
            continue
        ways = [way for way in snapshot.due if server in _servers(runtime, way)]
        made = _claim(runtime, server.name, ways, is_usable) if ways else None
        if made is not None:
            circuit_breaker.note_prober(runtime.database, server.name, made.token)
            claims.append(made)
    return claims


def _claim(
    runtime: Runtime,
    server: str,
    ways: list[LaneKey],
    is_usable: Callable[[ServerSettings], bool],
) -> Claim | None:
    database, lease = runtime.database, runtime.settings.lease
    breaker = database.read(lambda c: circuit_breaker.read(c, database)).get(server)
    if breaker is None:
        return None
    chosen = None
    if breaker.cause is Cause.EMAILS:
        chosen = _choose(runtime, breaker, ways, is_usable)
        if chosen is None:  # another server can take what is in a hurry, or the rows are locked
            return None
    if not circuit_breaker.take_probe(database, server):
        return None
    if chosen is None:
        return claim_probe(database, (ways[0][0], Priority.NORMAL), None, lease_seconds=lease)
    return claim_probe(database, (chosen.lane, chosen.priority), chosen.id, lease_seconds=lease)


def _choose(
    runtime: Runtime,
    breaker: Breaker,
    ways: list[LaneKey],
    is_usable: Callable[[ServerSettings], bool],
) -> Candidate | None:
    database = runtime.database
    failing = passed_over(database)
    suspect = database.read(lambda c: claimed_batch.suspects(c, database, [breaker]))
    ranked = ranked_probes(
        [one for one in candidates(database, ways) if one.id not in failing],
        suspect.get(breaker.server),
        breaker.suspect_id,
        suspect_content=content_of(database, breaker.suspect_id),
        usable_elsewhere={w[0] for w in ways if any(map(is_usable, _servers(runtime, w)))},
        random=runtime.random,
    )
    return first_free(database, ranked)


def _servers(runtime: Runtime, way: LaneKey) -> tuple[ServerSettings, ...]:
    return runtime.routes.servers_of(route_of_lane(way[0]))
