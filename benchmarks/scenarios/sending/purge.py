"""purge: the drain while a million finished emails, and their bodies, are being removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from benchmarks.bench import Bench
from benchmarks.instruments.lending import outbox_on
from benchmarks.measure import rate
from benchmarks.ours import Ours
from benchmarks.results import Row, Series, at_least, at_most
from outbox.worker.purge import purge_all
from tests.support.shop.steps.many import Reading, finish

EMAILS = 20_000
FINISHED = 1_000_000
COUNTED = 20_000
"""How many removals the database's reads are counted over."""

_ALONE, _BESIDE = "nothing is purged", "beside a purge"
_ROWS = 3
"""What goes with an email: its row, its content's, and that of its attempt."""


def run(bench: Bench) -> list[Row]:
    """Measure the drain with a purge and without in turn, and then what a purge reads."""
    url = bench.postgres.new_database()
    emails, finished = bench.size(EMAILS, least=200), bench.size(FINISHED, least=5_000)
    fill(url, bench, finished)
    removed: list[float] = []
    contestants: dict[str, Callable[[], float]] = {
        _ALONE: partial(drain, bench, url, emails),
        _BESIDE: partial(drain, bench, url, emails, removed),
    }
    rates = bench.rates(contestants)
    speed = Series("removed meanwhile", "emails/s", tuple(removed))
    return [
        Row("purge", "drain beside a purge", rates[_BESIDE], rates[_ALONE], at_least(0.9)),
        Row("purge", "emails removed beside a drain", speed),
        reads("purge", bench, url, bench.size(COUNTED, least=1_000)),
    ]


def fill(url: str, bench: Bench, emails: int) -> None:
    """Write so many sent emails, each with a content and an attempt of its own."""
    with outbox_on(bench, url) as (made, _):
        finish(made.engine, 1, emails)
        if made.engine.dialect.name == "postgresql":
            made.run("VACUUM (ANALYZE)", "CHECKPOINT")


FOREVER = 1e9
"""Seconds: the filled emails finish one a minute, from now on."""


def drain(
    bench: Bench,
    url: str,
    emails: int,
    removed: list[float] | None = None,
    *,
    older_than: float = -FOREVER,
) -> float:
    """Send a backlog of so many emails; with a list, purge meanwhile and add how fast that was."""
    with outbox_on(bench, url) as (made, sink):
        made.enqueue(range(emails))
        made.worker()
        with nullcontext() if removed is None else _purging(made, removed, older_than):
            return rate(sink, emails, made.sweep)


@contextmanager
def _purging(made: Ours, removed: list[float], older_than: float) -> Iterator[None]:
    """Purge all the time, as `flask outbox purge` does, until the block ends."""
    over = threading.Event()
    count = 0

    def work() -> None:
        nonlocal count
        for chunk in purge_all(made.runtime, older_than=older_than):
            count += chunk.emails
            if over.is_set():
                return

    purger = threading.Thread(target=work)
    begun = time.perf_counter()
    purger.start()
    try:
        yield
    finally:
        over.set()
        purger.join()
        removed.append(count / (time.perf_counter() - begun))


def reads(
    scenario: str, bench: Bench, url: str, emails: int, *, older_than: float = -FOREVER
) -> Row:
    """Count the rows that the database reads for each row that a purge removes."""
    done = 0

    def work(made: Ours) -> None:
        nonlocal done
        done = remove(made, emails, older_than=older_than)

    with outbox_on(bench, url) as (made, _):
        read = Reading(made.engine).of(partial(work, made))["rows"]
    figure = Series("rows read", "rows", (read / max(1, _ROWS * done),))
    return Row(scenario, "rows read for each row removed", figure, target=at_most(10))


def remove(made: Ours, emails: int, *, older_than: float) -> int:
    """Purge until at least so many emails are gone; return how many."""
    done = 0
    for chunk in purge_all(made.runtime, older_than=older_than):
        done += chunk.emails
        if done >= emails:
            break
    return done
