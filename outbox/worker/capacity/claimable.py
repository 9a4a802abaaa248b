"""Tells whether to give way to email that a sweep would claim if one more slot were free."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey, contenders
from ...store.queries.sweep.preemption import (
    is_any_left,
    should_yield_bulk,
    should_yield_to_urgent,
)
from ...store.queries.sweep.sweep_snapshot import COUNTED, survey
from ..process.runtime import Runtime
from .server_rooms import rooms


def claimable(runtime: Runtime, mine: LaneKey | None = None) -> Collection[LaneKey]:
    """Return the ways whose emails a sweep would claim if a batch of the way `mine` ended.

    They are more urgent than it; without one they are all.

    The sweep's own plan decides, which knows the emails in flight of each rate, the caps of servers
    and the ramp after an outage. It takes one statement.
    """
    state = survey(
        runtime.database,
        runtime.lanes,
        runtime.servers,
        limit=1,
        choose=lambda _: (),
        term=runtime.settings.lease,
        priorities=[one for one in Priority if mine is None or one < mine[1]],
    )
    flight = dict(state.flight)
    if mine in flight and flight[mine].batches:
        flight[mine] = replace(flight[mine], batches=flight[mine].batches - 1)
    running = sum(found.batches for found in flight.values())
    return contenders(
        state.due,
        flight,
        lanes=runtime.lanes,
        lags=state.lags,
        slots=running + COUNTED,  # not only the first of them: another transaction may have it
        rooms=rooms(runtime, replace(state, flight=flight)),
    )


def gives_way(runtime: Runtime, mine: LaneKey | None = None) -> bool:
    """Return whether a batch of the way `mine`, or other work, gives way to more urgent email."""
    is_bulk = mine is not None and mine[1] is Priority.BULK
    ask = should_yield_bulk if is_bulk else should_yield_to_urgent
    return ask(
        runtime.database,
        runtime.lanes,
        slots=runtime.slots(),
        routes=runtime.routes,
        claimable=partial(claimable, runtime, mine),
    )


def are_left(runtime: Runtime) -> bool:
    """Return whether an email could go, over any server, that no process has been free to take."""
    return is_any_left(
        runtime.database,
        runtime.lanes,
        routes=runtime.routes,
        term=runtime.settings.lease,
        claimable=partial(claimable, runtime),
    )
