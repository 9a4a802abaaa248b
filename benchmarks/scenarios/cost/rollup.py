"""rollup: the drain beside itself without the counts, and without all that people look at.

The counts are those of attempts. The workers of the other drains leave these parts out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.instruments.removal import WITHOUT, Removable
from benchmarks.instruments.usage import rate_and_time
from benchmarks.ours import ours
from benchmarks.results import Row, Series, at_least
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000
_TURNS = 3
"""Drains of each contestant in a round, because these targets are nearer than drains vary."""

_WHOLE, _UNCOUNTED, _BARE = "this project", "without the rollup", "without all of it"
_SETTINGS: dict[str, dict[str, Any]] = {
    _WHOLE: {},
    _UNCOUNTED: {WITHOUT: [Removable.ROLLUP]},
    _BARE: {WITHOUT: list(Removable), "OUTBOX_SEARCH": []},
}
_NO_ATTENTION = "ALTER TABLE outbox_email DROP COLUMN attention_at"  # and its index with it

_TRACES = {
    Removable.ROLLUP: "SELECT EXISTS (TABLE outbox_tally) OR EXISTS (TABLE outbox_stat)",
    Removable.FLEET: "SELECT EXISTS (TABLE outbox_worker)",
}
"""Whether the table has anything of a part."""


def run(bench: Bench) -> list[Row]:
    """Measure the drains in turn, each with emails of its own."""
    emails = bench.size(EMAILS, least=400)
    times: dict[str, list[float]] = {name: [] for name in _SETTINGS}
    contestants: dict[str, Callable[[], float]] = {
        name: partial(_drain, bench, emails, name, times[name]) for name in _SETTINGS
    }
    rates = bench.rates(contestants, rounds=_TURNS * bench.rounds)
    taken = {name: Series(name, "µs", tuple(figures)) for name, figures in times.items()}
    return [
        row
        for name, least in ((_UNCOUNTED, 0.97), (_BARE, 0.95))
        for row in (
            Row(
                "rollup",
                f"drain, beside itself {name}",
                rates[_WHOLE],
                rates[name],
                at_least(least),
            ),
            Row("rollup", f"processor time, beside itself {name}", taken[_WHOLE], taken[name]),
        )
    ]


def _drain(bench: Bench, emails: int, name: str, times: list[float]) -> float:
    settings = _SETTINGS[name]
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port, **settings) as made,
    ):
        if name is _BARE:
            made.run(_NO_ATTENTION)
        made.enqueue(range(emails))
        figure, time = rate_and_time(made, bench.postgres, made.worker(), sink, emails)
        for removable, trace in _TRACES.items():
            if removable in settings.get(WITHOUT, ()) and made.scalar(trace):
                raise RuntimeError(f"the worker did not leave out: {removable}")
        times.append(time)
        return figure
