"""Lends an outbox on a database that other measurements use, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench import Bench
from benchmarks.ours import Ours, ours
from tests.support.servers.smtp.smtp_sink import SmtpSink


@contextmanager
def outbox_on(bench: Bench, url: str, *, nudge: bool = False) -> Iterator[tuple[Ours, SmtpSink]]:
    """Lend the outbox on this database, and the server that it sends to."""
    bench.redis.flushall()
    with SmtpSink() as sink, ours(url, bench.redis.url, sink.port, nudge=nudge) as made:
        yield made, sink
