"""saturation: what an email takes of each part, with 1, 4 and 16 processes and other WAL settings.

Nothing here has a target: docs/scaling.md reckons with these figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks import fill
from benchmarks.bench import Bench
from benchmarks.instruments.looks import look_and_plan
from benchmarks.instruments.usage import System, Usage
from benchmarks.measure import milliseconds, rate
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series
from benchmarks.scenarios.enqueueing.newsletter import table_bytes
from outbox.worker.purge import purge_all
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.waiting import wait_until

EMAILS = 20_000
BACKLOG = 200_000
SLOTS = (4, 16, 64, 256)
_TIMES = 20
_NO_AGE = -1.0
"""Seconds. A purge removes what finished before one second from now: all of it."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """How many processes send, and what is set or done before they start."""

    processes: int
    settings: tuple[str, ...] = ()  # of the database, for each new connection
    is_after_checkpoint: bool = False


@dataclass(kw_only=True)
class Found:
    """What the rounds of one case used, by step, and how large a sent email is."""

    enqueued: list[Usage] = field(default_factory=list)
    drained: list[Usage] = field(default_factory=list)
    purged: list[Usage] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)


CASES = {
    "1 process": Case(processes=1),
    "4 processes": Case(processes=4),
    "16 processes": Case(processes=16),
    "4, after a checkpoint": Case(processes=4, is_after_checkpoint=True),
    "4, the same, wal_compression": Case(
        processes=4, is_after_checkpoint=True, settings=("wal_compression = 'on'",)
    ),
    "4, synchronous_commit off": Case(processes=4, settings=("synchronous_commit = 'off'",)),
}
_USUAL = "4 processes"


def run(bench: Bench) -> list[Row]:
    """Measure the cases in turn, then what an email takes from enqueue to purge, and looks."""
    emails = bench.size(EMAILS, least=400)
    found = {name: Found() for name in CASES}
    contestants: dict[str, Callable[[], float]] = {
        name: partial(_measured, bench, case, emails, found[name]) for name, case in CASES.items()
    }
    rates = bench.rates(contestants)
    for name, case in found.items():
        bench.remark(f"{name}: {_told(case.drained, emails)}")
    rows = [Row("saturation", f"drain, {name}", series) for name, series in rates.items()]
    return [*rows, *_life(found[_USUAL], emails), *_looks(bench)]


def _measured(bench: Bench, case: Case, emails: int, found: Found) -> float:
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port) as made,
    ):
        system = System(made=made, postgres=bench.postgres, broker=bench.redis, sink=sink)
        empty, before = table_bytes(made), system.usage()
        made.enqueue(range(emails))
        found.enqueued.append(system.usage().minus(before))
        _prepare(made, case)
        worker = made.worker(case.processes)
        figure, used = _drained(system, worker, sink, emails)
        found.drained.append(used)
        made.stop()
        found.bytes.append((table_bytes(made) - empty) / emails)
        before = system.usage()
        for _ in purge_all(made.runtime, older_than=_NO_AGE):
            pass
        found.purged.append(system.usage().minus(before))
        return figure


def _prepare(made: Ours, case: Case) -> None:
    name = made.engine.url.database
    made.run(*(f"ALTER DATABASE {name} SET {setting}" for setting in case.settings))
    if case.is_after_checkpoint:
        made.run("CHECKPOINT")


def _drained(
    system: System, worker: CeleryProcess, sink: SmtpSink, emails: int
) -> tuple[float, Usage]:
    """Drain, and wait until each batch is recorded and PostgreSQL's sessions told their figures."""
    before = system.usage(worker)
    figure = rate(sink, emails, system.made.sweep)
    wait_until(lambda: not system.made.scalar(_AT_WORK), 30, "the last batch to be recorded")
    used = system.usage(worker).minus(before)
    worker.stop()  # its sessions end, and so tell the last of their figures
    told = system.usage().minus(before)
    changes = {name: getattr(told, name) for name in ("pages", "flushes", "sweeps")}
    return figure, replace(used, **changes)


_AT_WORK = "SELECT count(*) FROM outbox_lease"


def _told(rounds: Sequence[Usage], emails: int) -> str:
    """Return what an email took in the median of the rounds."""

    def median(of: Callable[[Usage], float]) -> float:
        return statistics.median(map(of, rounds))

    def micro(part: str) -> float:
        return median(lambda used: getattr(used, part)) * 1e6 / emails

    return (
        f"an email takes {median(lambda used: used.wal) / emails:.0f} bytes of WAL,"
        f" {median(lambda used: used.pages) / emails:.3f} whole pages in it,"
        f" {median(lambda used: used.flushes) / emails:.4f} flushes,"
        f" {median(lambda used: used.commands) / emails:.3f} commands of Redis; µs of a processor:"
        f" PostgreSQL {micro('postgres'):.0f}, worker {micro('worker'):.0f},"
        f" smtp-sink {micro('sink'):.0f}, Redis {micro('redis'):.1f};"
        f" {median(lambda used: used.busy):.2f} cores busy,"
        f" {median(lambda used: used.sweeps / used.seconds):.1f} sweeps a second"
    )


def _life(found: Found, emails: int) -> list[Row]:
    """Return what an email takes in each step of its life, and its size when it is sent."""
    steps = {"enqueued in bulk": found.enqueued, "drained": found.drained, "purged": found.purged}
    rows = []
    for step, rounds in steps.items():
        wal = tuple(used.wal / emails for used in rounds)
        postgres = tuple(used.postgres * 1e6 / emails for used in rounds)
        python = tuple((used.worker or used.here) * 1e6 / emails for used in rounds)
        rows += [
            Row("saturation", f"WAL of an email, {step}", Series(_USUAL, "bytes", wal)),
            Row("saturation", f"PostgreSQL's time, {step}", Series(_USUAL, "µs", postgres)),
            Row("saturation", f"Python's time, {step}", Series(_USUAL, "µs", python)),
        ]
    speed = tuple(emails / used.seconds for used in found.purged)
    size = Series(_USUAL, "bytes", tuple(found.bytes))
    return [
        *rows,
        Row("saturation", "purged, nothing beside it", Series(_USUAL, "emails/s", speed)),
        Row("saturation", "tables and indexes of a sent email", size),
    ]


def _looks(bench: Bench) -> list[Row]:
    """Time a sweep's look and plan at a backlog, for more and more slots."""
    taken: dict[int, list[float]] = {slots: [] for slots in SLOTS}
    url, times = bench.postgres.new_database(), bench.size(_TIMES, least=3)
    with ours(url, bench.redis.url, 25) as made:
        fill.backlog(made, bench.size(BACKLOG, least=2_000))
    for _ in range(bench.rounds):
        for slots in SLOTS:
            with ours(url, bench.redis.url, 25, OUTBOX_SLOTS=slots) as made:
                taken[slots].append(milliseconds(partial(look_and_plan, made), times))
    return [
        Row("saturation", f"a sweep's look, {slots} slots", Series("free", "ms", tuple(figures)))
        for slots, figures in taken.items()
    ]
