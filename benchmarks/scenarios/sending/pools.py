"""pools: what each of Celery's pools sends to a server 20 ms away, and the memory that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measure import rate, shared_fairly
from benchmarks.ours import ours
from benchmarks.results import Row, Series
from benchmarks.scenarios.sending.distance import ONE_WAY
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.smtp_sink import SmtpSink

_EMAILS = 200
"""Emails for each connection."""

_MEGABYTE = 1000 * 1000


@dataclass(frozen=True)
class Worker:
    """A worker's pool, and how many connections it has."""

    pool: str
    connections: int

    def __str__(self) -> str:
        return f"{self.pool}, {self.connections} connections"


WORKERS = (Worker("gevent", 40), Worker("threads", 40), Worker("prefork", 10))


def run(bench: Bench) -> list[Row]:
    """Measure the rate and the memory of each worker in turn."""
    memory: dict[Worker, list[float]] = {worker: [] for worker in WORKERS}
    contestants = {
        str(worker): partial(_drain, bench, worker, memory[worker]) for worker in WORKERS
    }
    rates = bench.rates(contestants)
    return [
        row
        for worker in WORKERS
        for row in (
            Row("pools", f"drain at 20 ms, {worker}", rates[str(worker)]),
            Row("pools", f"memory, {worker}", Series(str(worker), "MB", tuple(memory[worker]))),
        )
    ]


def _drain(bench: Bench, worker: Worker, memory: list[float]) -> float:
    emails = bench.size(_EMAILS * worker.connections, least=200)
    bench.redis.flushall()
    settings: dict[str, Any] = {
        "OUTBOX_BATCH": _EMAILS // 2,  # each connection has two batches
        "SQLALCHEMY_ENGINE_OPTIONS": {"pool_size": worker.connections},
    }
    with (
        SmtpSink() as sink,
        Delay(sink.port, ONE_WAY) as delay,
        ours(bench.postgres.new_database(), bench.redis.url, delay.port, **settings) as outbox,
    ):
        outbox.enqueue(range(emails))
        process = outbox.worker(worker.connections, pool=worker.pool)
        found = rate(sink, emails, outbox.sweep)
        held = sum(shared_fairly(member.pid) for member in process.processes())
        memory.append(held / _MEGABYTE)
        return found
