"""fields: a newsletter that names each reader, beside the same newsletter without names."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.bench import Bench
from benchmarks.measure import rate
from benchmarks.ours import ours
from benchmarks.results import Row, Series, at_least
from tests.support.servers.smtp.smtp_sink import SmtpSink

READERS = 20_000
PLAIN, FIELDS = "for all alike", "with fields"


def run(bench: Bench) -> list[Row]:
    """Measure the enqueue with its commit, and the drain over two processes."""
    readers = bench.size(READERS, least=1000)
    enqueued: dict[bool, list[float]] = {True: [], False: []}
    drained = bench.rates(
        {
            PLAIN: partial(_drain, bench, readers, enqueued, fields=False),
            FIELDS: partial(_drain, bench, readers, enqueued, fields=True),
        }
    )
    rows = Series(FIELDS, "emails/s", tuple(enqueued[True]))
    what = "drain a newsletter with fields"
    return [
        Row("fields", "enqueue a newsletter with fields", rows, target=at_least(25e3)),
        Row("fields", what, drained[FIELDS], drained[PLAIN], at_least(0.9)),
    ]


def _drain(bench: Bench, readers: int, enqueued: dict[bool, list[float]], *, fields: bool) -> float:
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port) as made,
    ):
        begun = time.perf_counter()
        made.newsletter(readers, fields=fields)
        enqueued[fields].append(readers / (time.perf_counter() - begun))
        made.worker()
        return rate(sink, readers, made.sweep)
