"""distance: the server is 20 ms away, and both we and smtplib have ten connections."""

from __future__ import annotations

import smtplib
import statistics
import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.measure import rate
from benchmarks.ours import ours
from benchmarks.peers.smtplib_loop import SmtplibLoop
from benchmarks.results import Row, at_least
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.smtp_sink import SmtpSink

ONE_WAY = 0.010
CONNECTIONS = 10
EMAILS = 8_000
SMTPLIB_EMAILS = 2_000
"""Fewer emails show the rate as well where each takes four round trips."""


def run(bench: Bench) -> list[Row]:
    """Measure both rates over ten connections; over one connection their ratio is the same."""
    contestants: dict[str, Callable[[], float]] = {
        "this project": partial(_ours, bench, bench.size(EMAILS, least=200)),
        "smtplib loop": partial(_smtplib, bench.size(SMTPLIB_EMAILS, least=100)),
    }
    bench.remark(f"a NOOP over the delay proxy took {_round_trip() * 1000:.1f} ms")
    rates = bench.rates(contestants)
    what = f"drain at 20 ms, {CONNECTIONS} connections"
    row = Row("distance", what, rates["this project"], rates["smtplib loop"], at_least(3.5))
    return [row]


def _ours(bench: Bench, emails: int) -> float:
    bench.redis.flushall()
    url = bench.postgres.new_database()
    with (
        SmtpSink() as sink,
        Delay(sink.port, ONE_WAY) as delay,
        ours(url, bench.redis.url, delay.port) as outbox,
    ):
        outbox.enqueue(range(emails))
        outbox.worker(processes=CONNECTIONS)
        return rate(sink, emails, outbox.sweep)


def _smtplib(emails: int) -> float:
    with SmtpSink() as sink, Delay(sink.port, ONE_WAY) as delay:
        loop = SmtplibLoop(delay.port, emails, CONNECTIONS)
        try:
            return rate(sink, emails, loop.start)
        finally:
            loop.join()


def _round_trip() -> float:
    """Return the seconds that a round trip over the proxy really takes: the median of twenty."""
    taken = []
    with (
        SmtpSink() as sink,
        Delay(sink.port, ONE_WAY) as delay,
        smtplib.SMTP("127.0.0.1", delay.port) as server,
    ):
        for _ in range(20):
            begun = time.perf_counter()
            server.noop()
            taken.append(time.perf_counter() - begun)
    return statistics.median(taken)
