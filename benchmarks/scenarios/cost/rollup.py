"""rollup: the drain beside itself without the counts, and without all that people look at.

The counts are those of attempts. The workers of the other drains leave these parts out.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.instruments.removal import WITHOUT, Removable
from benchmarks.instruments.side_by_side import Drains, all_of, drains, drains_in_turn
from benchmarks.results import Row, at_least

EMAILS = 5_000

_WHOLE, _UNCOUNTED, _BARE = "this project", "without the rollup", "without all of it"
_SETTINGS: dict[str, dict[str, Any]] = {
    _WHOLE: {},
    _UNCOUNTED: {WITHOUT: [Removable.ROLLUP]},
    _BARE: {WITHOUT: list(Removable), "OUTBOX_SEARCH": []},
}
_PREPARED = {
    _BARE: [  # and their index with them
        "ALTER TABLE outbox_email DROP COLUMN attention_at, DROP COLUMN attention_status"
    ],
}

_TRACES = {
    Removable.ROLLUP: "SELECT EXISTS (TABLE outbox_tally) OR EXISTS (TABLE outbox_stat)",
    Removable.FLEET: "SELECT EXISTS (TABLE outbox_worker)",
}
"""Whether the table has anything of a part."""


def run(bench: Bench) -> list[Row]:
    """Measure the drains in turn, each on tables of its own."""
    contexts = {
        name: drains(bench, *_PREPARED.get(name, ()), **settings)
        for name, settings in _SETTINGS.items()
    }
    with all_of(contexts) as contestants:
        rates, times = drains_in_turn(bench, contestants, bench.size(EMAILS, least=400))
        for name, one in contestants.items():
            _check(one, _SETTINGS[name].get(WITHOUT, ()))
    rows: list[Row] = []
    for name, least in ((_UNCOUNTED, 0.97), (_BARE, 0.95)):
        what = f"beside itself {name}"
        rows += (
            Row(
                "rollup", f"drain, {what}", rates[_WHOLE], rates[name], at_least(least), paired=True
            ),
            Row("rollup", f"processor time, {what}", times[_WHOLE], times[name], paired=True),
        )
    return rows


def _check(made: Drains, without: list[Removable]) -> None:
    for removable, trace in _TRACES.items():
        if made.scalar(trace) == (removable in without):
            raise RuntimeError(f"a worker without {without} did otherwise: {removable}")
