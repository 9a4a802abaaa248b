"""sqlite: the drain with two processes on one file, in WAL mode with synchronous=EXTRA."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.bench import Bench
from benchmarks.measure import rate
from benchmarks.ours import ours
from benchmarks.results import Row, Series, at_least, at_most
from benchmarks.servers import OUTPUT
from tests.support.servers.databases import sqlite
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000
LOCKED = "database is locked"


def run(bench: Bench) -> list[Row]:
    """Measure the rate, and count the lines about locks in the worker's log."""
    emails = bench.size(EMAILS, least=200)
    locked: list[float] = []
    rates = bench.rates({"this project": lambda: _drain(bench, emails, locked)})
    complaints = Series("this project", "lines", tuple(locked))
    return [
        Row("sqlite", "SQLite drain, 2 processes", rates["this project"], target=at_least(1500)),
        Row("sqlite", f'"{LOCKED}" in the log', complaints, target=at_most(0)),
    ]


def _drain(bench: Bench, emails: int, locked: list[float]) -> float:
    bench.redis.flushall()
    # On the disk that holds the project: /tmp may be memory, where nothing is durable.
    with TemporaryDirectory(dir=OUTPUT.absolute()) as directory, SmtpSink() as sink:
        url = sqlite.new_database(Path(directory))
        with ours(url, bench.redis.url, sink.port) as made:
            made.enqueue(range(emails))
            worker = made.worker()
            figure = rate(sink, emails, made.sweep)
            worker.stop()
            locked.append(float(worker.printed().count(LOCKED)))
        return figure
