"""Claims a sweep's probes: each asks whether one server with a half-open breaker is back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..domain.config.servers import ServerSettings
from ..domain.delivery.breaker_timing import Cause
from ..domain.delivery.refusal_fingerprint import is_of_contents, may_be_own
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
from ..store.control.blame.trial import on_trial, recipients_on_trial
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
    that is most likely to pass, if one may be risked. Where all were refused alike for what may be
    their own contents or recipients, it is several emails: nobody knows which of them may pass.
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
    chosen: Sequence[Candidate] = ()
    if breaker.cause is Cause.EMAILS:
        chosen = _choose(runtime, breaker, ways, is_usable)
        if not chosen:  # another server can take what is in a hurry, or the rows are locked
            return None
    others = is_of_contents(breaker.refusal) and any(one.is_fresh for one in chosen)
    if not circuit_breaker.take_probe(database, server, others=others):
        return None
    lane = chosen[0].lane if chosen else ways[0][0]
    priority = min((one.priority for one in chosen), default=Priority.NORMAL)
    ids = [one.id for one in chosen]
    return claim_probe(database, (lane, priority), ids, lease_seconds=lease)


def _choose(
    runtime: Runtime,
    breaker: Breaker,
    ways: list[LaneKey],
    is_usable: Callable[[ServerSettings], bool],
) -> Sequence[Candidate]:
    database = runtime.database
    failing = passed_over(database)
    suspect = database.read(lambda c: claimed_batch.suspects(c, database, [breaker]))
    content = content_of(database, breaker.suspect_id)
    ranked = ranked_probes(
        [one for one in candidates(database, ways) if one.id not in failing],
        suspect.get(breaker.server),
        breaker.suspect_id,
        suspect_content=content,
        usable_elsewhere={w[0] for w in ways if any(map(is_usable, _servers(runtime, w)))},
        random=runtime.random,
    )
    first = first_free(database, ranked)
    if first is None or not may_be_own(breaker.refusal):
        return [first] if first is not None else []
    settings, random = runtime.settings, runtime.random
    room = {"most": settings.window, "most_bytes": settings.window_bytes}
    if not is_of_contents(breaker.refusal):
        return recipients_on_trial(ranked, **room, random=random)
    return on_trial(ranked, content=content, turn=breaker.failures - 1, **room, random=random)


def _servers(runtime: Runtime, way: LaneKey) -> tuple[ServerSettings, ...]:
    return runtime.routes.servers_of(route_of_lane(way[0]))
