"""What a sweep does before its claims: it looks at what is due, and plans."""

from __future__ import annotations

from benchmarks.ours import Ours
from outbox.domain.scheduling.claim_plan import LaneKey
from outbox.domain.scheduling.claim_planner import contenders, plan_claims
from outbox.store.queries.sweep.sweep_snapshot import Snapshot, read_snapshot


def look_and_plan(made: Ours) -> None:
    """Read the table and plan the claims, for as many slots as there are; claim nothing."""
    runtime = made.runtime
    settings, lanes = runtime.settings, runtime.lanes
    slots, batch, window = runtime.slots(), settings.batch, settings.window

    def choose(state: Snapshot) -> list[LaneKey]:
        return contenders(state.due, state.flight, lanes=lanes, lags=state.lags, slots=slots)

    database, servers = runtime.database, runtime.servers
    state = read_snapshot(database, lanes, servers, limit=slots * batch, choose=choose)
    plan_claims(
        state.due,
        state.flight,
        lanes=lanes,
        lags=state.lags,
        slots=slots,
        batch=batch,
        window=window,
    )
