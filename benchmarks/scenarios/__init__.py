"""Every scenario of the table by its name, one file each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.bench import Bench
from benchmarks.results import Row
from benchmarks.scenarios.cost import (
    dashboard,
    encryption,
    idle,
    lanes,
    memory,
    rollup,
    roundtrips,
    saturation,
)
from benchmarks.scenarios.enqueueing import bulk, enqueue, fields, newsletter
from benchmarks.scenarios.sending import (
    distance,
    drain,
    growth,
    horizon,
    pools,
    purge,
    recovery,
    rules,
    sqlite,
    years,
)
from benchmarks.scenarios.timing import latency, pace, urgent

SCENARIOS: Mapping[str, Callable[[Bench], list[Row]]] = {
    "drain": drain.run,
    "distance": distance.run,
    "pools": pools.run,
    "recovery": recovery.run,
    "latency": latency.run,
    "urgent": urgent.run,
    "pace": pace.run,
    "enqueue": enqueue.run,
    "newsletter": newsletter.run,
    "fields": fields.run,
    "bulk": bulk.run,
    "growth": growth.run,
    "horizon": horizon.run,
    "purge": purge.run,
    "dashboard": dashboard.run,
    "idle": idle.run,
    "lanes": lanes.run,
    "rules": rules.run,
    "rollup": rollup.run,
    "saturation": saturation.run,
    "roundtrips": roundtrips.run,
    "memory": memory.run,
    "sqlite": sqlite.run,
    "encryption": encryption.run,
}

ON_REQUEST: Mapping[str, Callable[[Bench], list[Row]]] = {"years": years.run}
"""What takes an hour and 60 GB: it runs only where it is named."""

ALL: Mapping[str, Callable[[Bench], list[Row]]] = {**SCENARIOS, **ON_REQUEST}
"""Every scenario, in the order of the table of figures."""
