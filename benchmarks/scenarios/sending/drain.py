"""drain: a backlog of small emails goes out over two worker processes, beside all the peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.measure import rate
from benchmarks.ours import ours
from benchmarks.peers import backlogs
from benchmarks.results import Row, at_least
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000
FEWER = 4_000
"""Emails for the peers that are twenty times slower: they show the rate as well, in less time."""

OURS = "this project"
W1 = "this project, W = 1"
BULK = "this project, bulk"


def run(bench: Bench) -> list[Row]:
    """Measure our drain with the default window, with W = 1 and of bulk, and each peer's drain."""
    emails = bench.size(EMAILS, least=200)
    fewer = bench.size(FEWER, least=200)
    contestants: dict[str, Callable[[], float]] = {
        OURS: partial(drain, bench, emails),
        W1: partial(drain, bench, emails, OUTBOX_WINDOW=1),
        BULK: partial(drain, bench, emails, "bulk"),
        "smtplib loop": partial(backlogs.smtplib_loop, emails),
        "post_office": partial(backlogs.post_office, bench, emails),
        "Celery + Flask-Mail": partial(backlogs.tutorial, bench, fewer),
        "procrastinate": partial(backlogs.procrastinate, bench, fewer),
    }
    rates = bench.rates(contestants)
    mine = rates[OURS]
    targets = {
        "smtplib loop": at_least(1.0),
        "post_office": at_least(5.0),
        "Celery + Flask-Mail": at_least(12.0),
        "procrastinate": None,
    }
    what = "drain, 2 processes"
    rows = [
        Row("drain", what, mine, rates[name], target)
        for name, target in targets.items()
        if name in rates
    ]
    rows.append(Row("drain", f"{what}, W = 1", rates[W1], rates["smtplib loop"]))
    rows.append(Row("drain", f"{what}, bulk alone", rates[BULK], mine, at_least(0.9)))
    return rows


def drain(bench: Bench, emails: int, priority: str = "normal", **settings: Any) -> float:
    """Enqueue so many emails into an empty table, start a worker, and return its rate."""
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port, **settings) as outbox,
    ):
        outbox.enqueue(range(emails), priority)
        outbox.worker()
        return rate(sink, emails, outbox.sweep)
