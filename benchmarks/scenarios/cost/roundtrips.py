"""roundtrips: how often a drain waits for the database, counted between driver and server."""

from __future__ import annotations

from typing import Any

from sqlalchemy import make_url

from benchmarks.bench import Bench
from benchmarks.measure import reached
from benchmarks.ours import ours
from benchmarks.results import Row, Series, at_most
from tests.support.servers.databases.round_trips import RoundTrips
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000


def run(bench: Bench) -> list[Row]:
    """Drain through a proxy that counts, with the default window and with W = 1."""
    emails = bench.size(EMAILS, least=2000)
    trips = _trips(bench, emails)
    single = _trips(bench, max(400, emails // 10), OUTBOX_WINDOW=1)
    what = "database round trips an email"
    return [
        Row("roundtrips", what, _series(trips), target=at_most(0.1)),
        Row("roundtrips", f"{what}, W = 1", _series(single)),
    ]


def _series(value: float) -> Series:
    return Series("this project", "round trips", (value,))


def _trips(bench: Bench, emails: int, **settings: Any) -> float:
    """Count from the worker's start to its end, so that every log-in is included."""
    bench.redis.flushall()
    url = make_url(bench.postgres.new_database())
    with (
        SmtpSink() as sink,
        RoundTrips(bench.postgres.port) as proxy,
        ours(url.render_as_string(), bench.redis.url, sink.port, **settings) as made,
    ):
        made.enqueue(range(emails))
        proxied = url.set(port=proxy.port).render_as_string()
        made.worker(SQLALCHEMY_DATABASE_URI=proxied)
        made.sweep()
        reached(sink, emails)
        made.stop()
        return proxy.count / emails
