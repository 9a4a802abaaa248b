"""Every scenario of the table, one file each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.bench import Bench
from benchmarks.results import Row
from benchmarks.scenarios import (
    bulk,
    distance,
    drain,
    enqueue,
    fields,
    growth,
    horizon,
    idle,
    lanes,
    latency,
    memory,
    newsletter,
    pace,
    roundtrips,
    sqlite,
    urgent,
)

SCENARIOS: Mapping[str, Callable[[Bench], list[Row]]] = {
    "drain": drain.run,
    "distance": distance.run,
    "latency": latency.run,
    "urgent": urgent.run,
    "pace": pace.run,
    "enqueue": enqueue.run,
    "newsletter": newsletter.run,
    "fields": fields.run,
    "bulk": bulk.run,
    "growth": growth.run,
    "horizon": horizon.run,
    "idle": idle.run,
    "lanes": lanes.run,
    "roundtrips": roundtrips.run,
    "memory": memory.run,
    "sqlite": sqlite.run,
}
