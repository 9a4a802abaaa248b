"""recovery: what goes out while processes are killed, beside what goes out while they are not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from benchmarks import fill
from benchmarks.bench import Bench
from benchmarks.measure import reached
from benchmarks.ours import ours
from benchmarks.results import Row, Series, at_least, at_most
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.smtp_sink import SmtpSink

SECONDS = 40
BACKLOG = 500_000
"""Emails that wait: more than go out in that time, or the run is refused."""

_LOOK = 0.02


@dataclass(frozen=True)
class Case:
    """How many workers there are, of how many processes each, and what is killed how often."""

    workers: int
    processes: int
    kill: Callable[[CeleryProcess], object]
    every: float  # seconds; the first kill comes after half of them


def run(bench: Bench) -> list[Row]:
    """Measure calm and kills in turn; a worker that is killed whole is started again at once."""
    child = Case(workers=1, processes=2, kill=_kill_child, every=10)
    whole = Case(workers=2, processes=1, kill=_kill_whole, every=20)
    stills: dict[str, list[float]] = {}
    contestants = {
        name: partial(_measured, bench, case, stills.setdefault(name, []), kills=kills)
        for name, case, kills in (
            ("one worker, calm", child, False),
            ("a child killed every 10 s", child, True),
            ("two workers, calm", whole, False),
            ("a worker killed every 20 s", whole, True),
        )
    }
    rates = bench.rates(contestants)
    rows = []
    for killed, calm, least in (
        ("a child killed every 10 s", "one worker, calm", 0.85),
        ("a worker killed every 20 s", "two workers, calm", 0.7),
    ):
        longest = Series(killed, "s", tuple(stills[killed]))
        rows.append(Row("recovery", killed, rates[killed], rates[calm], at_least(least)))
        what = f"{killed}, longest standstill"
        rows.append(Row("recovery", what, longest, target=at_most(3), worst=True))
    return rows


def _measured(bench: Bench, case: Case, stills: list[float], *, kills: bool) -> float:
    """Return the rate over the time; note for how long nothing went out at the longest."""
    bench.redis.flushall()
    seconds = bench.size(SECONDS, least=12)
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port) as made,
    ):
        fill.backlog(made, backlog := bench.size(BACKLOG, least=150_000))
        workers = [made.worker(case.processes) for _ in range(case.workers)]
        made.beat()
        first = reached(sink, 1)
        with _killing(case, workers) if kills else nullcontext():
            last, still = _watched(sink, seconds)
    if last >= backlog:
        raise RuntimeError("the backlog was empty before the time was over")
    stills.append(still)
    return (last - first) / seconds


def _watched(sink: SmtpSink, seconds: float) -> tuple[int, float]:
    """Return how many emails are out after so long, and how long none was at the longest."""
    begun = moved = time.perf_counter()
    seen, still = sink.accepted(), 0.0
    while (now := time.perf_counter()) - begun < seconds:
        if (accepted := sink.accepted()) != seen:
            seen, moved = accepted, now
        still = max(still, now - moved)
        time.sleep(_LOOK)
    return seen, still


@contextmanager
def _killing(case: Case, workers: list[CeleryProcess]) -> Iterator[None]:
    """Kill again and again in the background; stop at the end of the block."""
    ended: list[bool] = []

    def work() -> None:
        due, turn = time.monotonic() + case.every / 2, 0
        while not ended:
            if time.monotonic() < due:
                time.sleep(_LOOK)
                continue
            case.kill(workers[turn % len(workers)])
            due, turn = due + case.every, turn + 1

    with ThreadPoolExecutor(1) as thread:
        killer = thread.submit(work)
        try:
            yield
        finally:
            ended.append(True)
            killer.result()


def _kill_child(worker: CeleryProcess) -> None:
    children = sorted(member.pid for member in worker.processes() if member.pid != worker.pid)
    os.kill(children[0], signal.SIGKILL)


def _kill_whole(worker: CeleryProcess) -> None:
    worker.kill_9()
    worker.start()
