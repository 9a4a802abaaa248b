"""pools: what each of Celery's pools sends to a server 20 ms away, and the memory that it takes.

The rate stands beside the one that the distance allows: an email on each connection in each round
trip. A server without PIPELINING needs four round trips for an email.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measure import rate, shared_fairly
from benchmarks.ours import ours
from benchmarks.results import Row, Series, Target, at_least, at_most
from benchmarks.scenarios.sending.distance import ONE_WAY
from tests.support.servers.delay import Delay
from tests.support.servers.smtp.smtp_sink import SmtpSink

_EMAILS = 800
"""Emails for each connection, where each takes one round trip: two batches of the default size.

With fewer the first session and the last batch would weigh as much as all between them.
"""

_MEGABYTE = 1000 * 1000


_ROUND_TRIP = 2 * ONE_WAY

_NO_PIPELINING = "-p"
"""smtp-sink's option."""

_ROUND_TRIPS = {(): 1, (_NO_PIPELINING,): 4}
"""An email's round trips by the server's options: MAIL, RCPT, DATA and the content, or all at
once."""


@dataclass(frozen=True)
class Worker:
    """A worker's pool, how many connections it has, its targets, and its server's options."""

    pool: str
    connections: int
    share: float | None = None  # of the rate that stands beside its own
    megabytes: float | None = None
    server: tuple[str, ...] = ()
    window: int | None = None  # emails; None for the setting's default
    beside: Worker | None = None  # its rate stands in the place of what the distance allows

    def __str__(self) -> str:
        told = ", no PIPELINING" if self.server else ""
        told += f", a window of {self.window}" if self.window else ""
        return f"{self.pool}, {self.connections} connections{told}"

    @property
    def possible(self) -> float:
        """The most emails a second that this distance allows."""
        return self.connections / (_ROUND_TRIPS[self.server] * _ROUND_TRIP)

    @property
    def emails(self) -> int:
        """How many emails each connection gets: it takes as long, however many round trips."""
        return _EMAILS // _ROUND_TRIPS[self.server]

    @property
    def databases(self) -> int:
        """The database connections that its tasks share: one for four of them."""
        return max(1, self.connections // 4)


_GEVENT = Worker("gevent", 40, share=0.9)
_THREADS = Worker("threads", 40, share=0.8)

WORKERS = (
    _GEVENT,
    replace(_GEVENT, window=1, share=0.8, beside=_GEVENT),
    Worker("gevent", 100, share=0.7, megabytes=250),
    _THREADS,
    replace(_THREADS, window=1, share=0.8, beside=_THREADS),
    Worker("prefork", 10),
    Worker("gevent", 40, share=0.9, server=(_NO_PIPELINING,)),
)


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
            _of_rate(worker, rates),
            _of_memory(worker, Series(str(worker), "MB", tuple(memory[worker]))),
        )
    ]


def _of_rate(worker: Worker, rates: Mapping[str, Series]) -> Row:
    own = rates[str(worker)]
    beside = Series("the distance allows", "emails/s", (worker.possible,) * len(own.values))
    if worker.beside is not None:
        beside = rates[str(worker.beside)]
    what = f"drain at 20 ms, {worker}"
    return Row("pools", what, own, beside, _target(worker.share, at_least))


def _of_memory(worker: Worker, memory: Series) -> Row:
    return Row("pools", f"memory, {worker}", memory, target=_target(worker.megabytes, at_most))


def _target(limit: float | None, kind: Callable[[float], Target]) -> Target | None:
    return None if limit is None else kind(limit)


def _drain(bench: Bench, worker: Worker, memory: list[float]) -> float:
    emails = bench.size(worker.emails * worker.connections, least=200)
    bench.redis.flushall()
    settings: dict[str, Any] = {
        "OUTBOX_BATCH": worker.emails // 2,
        "SQLALCHEMY_ENGINE_OPTIONS": {"pool_size": worker.databases, "max_overflow": 0},
    }
    if worker.window is not None:
        settings["OUTBOX_WINDOW"] = worker.window
    with (
        SmtpSink(*worker.server) as sink,
        Delay(sink.port, ONE_WAY) as delay,
        ours(bench.postgres.new_database(), bench.redis.url, delay.port, **settings) as outbox,
    ):
        outbox.enqueue(range(emails))
        process = outbox.worker(worker.connections, pool=worker.pool)
        found = rate(sink, emails, outbox.sweep)
        held = sum(shared_fairly(member.pid) for member in process.processes())
        memory.append(held / _MEGABYTE)
        return found
