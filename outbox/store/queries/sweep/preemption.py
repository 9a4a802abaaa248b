"""Tells whether urgent email waits or is active, so that other email gives way to it.

Each batch asks ten times a second. Urgent email is first in the index of due emails, so the cost
depends only on the number of lanes in which urgent email waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CompoundSelect, func, union_all

from ....domain.config.routing import Routes
from ....domain.delivery.breaker_timing import BreakerState
from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import AHEAD
from ....domain.scheduling.lanes import Lanes, route_of_lane
from ...connection.database import Database
from .lane_keys import marked
from .tagged_rows import Findings, due_query, finding, lagging, now, pauses

_STUCK = 0.3
"""Seconds within which an urgent batch starts if any process is free."""

_LEFT = 0.03
"""Seconds within which urgent email is claimed if any process is free to sweep."""

_URGENT = Priority.URGENT


def is_urgent_active(database: Database, lanes: Lanes, lane: str) -> bool:
    """Return whether urgent email that shares a bucket with this lane is due or in flight."""
    found = _look(database, _stirring)
    stirring = {row.name for row in found["flight"]}
    stirring |= {name for name, age in _waiting(found).items() if age >= 0.0}
    return any(lanes.share_a_bucket(lane, other) for other in stirring)


def _stirring(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    flying = (lease.priority == int(_URGENT)) & (lease.expires_at > database.now())
    return union_all(
        now(database),
        finding("flight", lease.lane).where(flying).group_by(lease.lane),
        due_query(database, _URGENT),
    )


def should_yield_to_urgent(database: Database, lanes: Lanes, *, slots: int, routes: Routes) -> bool:
    """Return whether urgent email could go, but lacks a free slot or a process to claim it.

    It could not go if `routes` give it only servers that are halted or whose rates are used up.

    An urgent batch whose task has not started yet waits too. It does not count as holding a slot:
    once one batch has given way to it, the others need not. If it stays unstarted, some worker has
    fetched the task while all its processes are busy. Then every batch gives way. Every batch also
    gives way if urgent email stays unclaimed although a slot is free. Then every process is busy,
    and none is left to sweep.
    """
    found = _look(database, _waits)
    age = _oldest(found, lanes, routes)
    holding, published, stuck = (_number(found, name) for name in _LEASES)
    return bool(stuck) or age >= _LEFT or (holding >= slots and (bool(published) or age >= 0.0))


_LEASES = ("holding", "published", "stuck")


def _waits(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease, breaker = database.tables.lease.c, database.tables.breaker.c
    unstarted = (lease.priority == int(_URGENT)) & lease.started_at.is_(None)
    late = lease.claimed_at < database.now(-_STUCK)
    kinds = dict(zip(_LEASES, (~unstarted, unstarted, unstarted & late), strict=True))
    holds = lease.expires_at > database.now()
    return union_all(
        now(database),
        *(finding(name, number=func.count()).where(holds, kind) for name, kind in kinds.items()),
        finding("halted", breaker.server).where(breaker.state == BreakerState.OPEN),
        *lagging(database, AHEAD),
        pauses(database),
        due_query(database, _URGENT),
    )


def _look(database: Database, statement: Any) -> Findings:
    return database.read(
        lambda connection: Findings(connection, database.built(statement), marked(database, {}))
    )


def _waiting(found: Findings) -> Mapping[str, float]:
    """Return how many seconds each lane's first urgent email has been due; below 0: not yet."""
    return {row.name: found.age(row.moment) for row in found["way"] if row.priority == _URGENT}


def _number(found: Findings, what: str) -> int:
    return int(found[what][0].number)


def _oldest(found: Findings, lanes: Lanes, routes: Routes) -> float:
    """Return how many seconds the oldest urgent email that a server would take has been due."""
    lags, halted = found.lags, {row.name for row in found["halted"]}
    ages = (
        age
        for lane, age in _waiting(found).items()
        if not lanes.is_closed(lane, lags, AHEAD) and _is_usable(lane, routes, lags, halted)
    )
    return -1.0 if _URGENT in found.paused else max(ages, default=-1.0)


def _is_usable(lane: str, routes: Routes, lags: Mapping[str, float], halted: set[str]) -> bool:
    """Return whether any server of the lane's route takes emails now."""
    return any(
        server.name not in halted and not (server.rate and lags.get(server.bucket, 0.0) > AHEAD)
        for server in routes.servers_of(route_of_lane(lane))
    )
