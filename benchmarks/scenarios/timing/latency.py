"""latency: the time from a commit to the server's 250 on an idle system, with and without nudge."""

from __future__ import annotations

import random
import time

from benchmarks.bench import Bench
from benchmarks.measure import quantile, reached
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 300
INTERVAL = 1.0
"""Seconds between two sweeps by beat, the default."""

_LOOK = 0.0002
_WARM_UP = 10


def run(bench: Bench) -> list[Row]:
    """Measure each round with the nudge; without it, where emails wait for beat, measure once."""
    emails = bench.size(EMAILS, least=20)
    medians, tails = [], []
    for _ in range(bench.rounds):
        taken = _latencies(bench, emails, nudge=True)
        medians.append(quantile(taken, 0.5))
        tails.append(quantile(taken, 0.99))
        bench.remark(f"with the nudge: p50 {medians[-1]:.1f} ms, p99 {tails[-1]:.1f} ms")
    slow = _latencies(bench, emails, nudge=False)
    half, most = quantile(slow, 0.5), quantile(slow, 0.99)
    bench.remark(f"without: p50 {half:.0f} ms, p99 {most:.0f} ms")
    what = "commit to 250, idle"
    limit = INTERVAL * 1000 + 50
    return [
        Row("latency", f"{what}, p50", _series(medians), target=at_most(10)),
        Row("latency", f"{what}, p99", _series(tails), target=at_most(40)),
        Row("latency", f"{what}, no nudge, p99", _series([most]), target=at_most(limit)),
    ]


def _series(values: list[float]) -> Series:
    return Series("this project", "ms", tuple(values))


def _latencies(bench: Bench, emails: int, *, nudge: bool) -> list[float]:
    """Return each email's milliseconds; they come one at a time, out of step with beat."""
    bench.redis.flushall()
    url = bench.postgres.new_database()
    with (
        SmtpSink() as sink,
        ours(url, bench.redis.url, sink.port, nudge=nudge, OUTBOX_SWEEP_INTERVAL=INTERVAL) as made,
    ):
        made.worker()
        made.beat()
        moments = random.Random(2)
        longest = 0.1 if nudge else INTERVAL
        taken = []
        for number in range(_WARM_UP + emails):
            time.sleep(moments.uniform(0.0, longest))
            taken.append(_latency(made, sink, number))
        return taken[_WARM_UP:]


def _latency(made: Ours, sink: SmtpSink, number: int) -> float:
    made.enqueue_one(number)
    committed = time.perf_counter()
    reached(sink, number + 1, _LOOK)
    return (time.perf_counter() - committed) * 1000
