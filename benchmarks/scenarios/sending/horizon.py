"""horizon: a long transaction keeps every dead row version while new emails come in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from statistics import mean

from sqlalchemy import text

from benchmarks.bench import Bench
from benchmarks.instruments.lending import outbox_on
from benchmarks.measure import rate
from benchmarks.ours import Ours
from benchmarks.results import Row, Series, at_least, at_most
from benchmarks.scenarios.sending.drain import drain

SECONDS = 120
RATE = 200
EMAILS = 20_000

_PRODUCERS = 4
"""They stand for web processes: one alone may not manage 200 durable commits a second."""

_WAITING = "SELECT count(*) FROM outbox_email WHERE due_at IS NOT NULL OR token IS NOT NULL"


def run(bench: Bench) -> list[Row]:
    """Watch the backlog while the horizon is held; then drain a backlog while it is still held."""
    emails = bench.size(EMAILS, least=200)
    url = bench.postgres.new_database()
    with outbox_on(bench, url, nudge=True) as (made, _), pinned(made):
        left = _under_load(made, bench.size(SECONDS, least=10))
        made.stop()
        made.finish_claims()
        late = mean(left[-len(left) // 4 :])
        bench.remark(
            f"backlog while {RATE} emails a second came in: at most {max(left)},"
            f" {mean(left[: len(left) // 4]):.0f} in the first quarter, {late:.0f} in the last"
        )
        contestants: dict[str, Callable[[], float]] = {
            "horizon pinned": partial(_drain, bench, url, emails),
            "nothing pinned": partial(drain, bench, emails),
        }
        rates = bench.rates(contestants)
    end = Series("this project", "emails", (late,))
    ours_, theirs = rates["horizon pinned"], rates["nothing pinned"]
    return [
        Row("horizon", f"backlog at the end of {RATE}/s, pinned", end, target=at_most(RATE)),
        Row("horizon", "drain, horizon pinned", ours_, theirs, at_least(0.8)),
    ]


@contextmanager
def pinned(made: Ours) -> Iterator[None]:
    """Hold a snapshot open, which holds the horizon of this database and of no other.

    It must not have a transaction's id: that would hold the horizon of every database.
    """
    with made.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(text("SELECT 1"))
        yield


def _under_load(made: Ours, seconds: float) -> list[int]:
    """Commit emails at the rate for so long; return the unfinished ones in each second."""
    made.worker()
    made.beat()
    waiting: list[int] = []
    with ThreadPoolExecutor(_PRODUCERS + 1) as threads:
        watcher = threads.submit(_watch, made, waiting, seconds)
        producers = [threads.submit(_produce, made, seconds) for _ in range(_PRODUCERS)]
        committed = sum(producer.result() for producer in producers)
        watcher.result()
    if committed < 0.95 * seconds * RATE:
        raise RuntimeError(f"only {committed} emails were committed in {seconds:g} s")
    return waiting


def _produce(made: Ours, seconds: float) -> int:
    """Commit single emails at a producer's share of the rate; return how many."""
    committed, begun = 0, time.monotonic()
    with made.app.flask.app_context():
        while (passed := time.monotonic() - begun) < seconds:
            if committed < passed * RATE / _PRODUCERS:
                made.enqueue_one(committed)
                committed += 1
            else:
                time.sleep(0.001)
    return committed


def _watch(made: Ours, waiting: list[int], seconds: float) -> None:
    with made.app.flask.app_context():
        for _ in range(int(seconds)):
            time.sleep(1.0)
            waiting.append(int(made.scalar(_WAITING)))


def _drain(bench: Bench, url: str, emails: int) -> float:
    with outbox_on(bench, url) as (made, sink):
        made.enqueue(range(emails))
        made.worker()
        return rate(sink, emails, made.sweep)
