"""idle: the cost of having nothing to do, from PostgreSQL's own log of statements."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks import servers
from benchmarks.bench import Bench
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from outbox.worker.sweep import sweep
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.databases.postgres import Postgres

SECONDS = 60.0
_WARM_UP = 5.0
_EDGE = 1.15
"""The limit is one statement per tick, and some room: the count may begin or end between a tick and
its sweep."""


def run(bench: Bench) -> list[Row]:
    """Count a sweep's statements, then all that reaches the database while beat ticks."""
    with (
        servers.postgres(("-c", "log_statement=all")) as postgres,
        ours(postgres.new_database(), bench.redis.url, 25, nudge=True) as made,
    ):
        sweep(made.runtime, lambda _: None)
        alone = _counted(postgres, lambda: sweep(made.runtime, lambda _: None))
        bench.redis.flushall()
        per_beat = _idle(bench, postgres, made, bench.size(int(SECONDS), least=10))
    one, all_of_it = (Series("this project", "statements", (n,)) for n in (alone, per_beat))
    return [
        Row("idle", "a sweep with nothing due", one, target=at_most(1)),
        Row("idle", "worker and beat idle, a beat", all_of_it, target=at_most(_EDGE)),
    ]


def _idle(bench: Bench, postgres: Postgres, made: Ours, seconds: float) -> float:
    made.worker(processes=1)  # each process asks PostgreSQL who it is when it first connects
    beat = made.beat()
    time.sleep(_WARM_UP)
    ticks = _ticks(beat)
    statements = _counted(postgres, lambda: time.sleep(seconds))
    ticked = _ticks(beat) - ticks
    bench.remark(f"{statements:.0f} statements in {seconds:g} s, in which beat ticked {ticked} x")
    return statements / ticked


def _ticks(beat: CeleryProcess) -> int:
    return beat.printed().count("Sending due task outbox.sweep")


def _counted(postgres: Postgres, work: Callable[[], object]) -> float:
    before = _statements(postgres)
    work()
    return _statements(postgres) - before


def _statements(postgres: Postgres) -> float:
    printed = postgres.printed()
    return printed.count("LOG:  statement:") + printed.count("LOG:  execute ")
