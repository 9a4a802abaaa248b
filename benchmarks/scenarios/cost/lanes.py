"""lanes: the time of a sweep with a thousand rated domains over five routes, empty and in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.bench import Bench
from benchmarks.instruments.looks import look_and_plan
from benchmarks.load import message_to
from benchmarks.measure import milliseconds
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from outbox.worker.capacity.claimable import gives_way
from outbox.worker.sweep import sweep

DOMAINS = 1000
ROUTES = ("second", "third", "fourth", "fifth")
OCCUPIED = 300
EMAILS = 20
_TIMES = 200


def run(bench: Bench) -> list[Row]:
    """Time a sweep that finds nothing, then a survey and a plan where 300 lanes have emails."""
    rounds = [_round(bench) for _ in range(bench.rounds)]
    taken = {what: Series("this project", "ms", tuple(r[what] for r in rounds)) for what in _WHATS}
    return [Row("lanes", what, series, target=at_most(10.0)) for what, series in taken.items()]


_EMPTY = "a sweep with nothing due, 1,000 domains x 5 routes"
_PLAN = "a sweep's look and plan, 300 of these lanes hold emails"
_URGENT = "a batch's look for urgent email beside them"
_WHATS = (_EMPTY, _PLAN, _URGENT)


def _round(bench: Bench) -> dict[str, float]:
    times = bench.size(_TIMES, least=5)
    with _outbox(bench) as made:
        runtime = made.runtime
        empty = milliseconds(lambda: sweep(runtime, lambda _: None), times)
        _occupy(made, bench.size(OCCUPIED, least=10))
        plan = milliseconds(lambda: look_and_plan(made), times)
        urgent = milliseconds(
            lambda: gives_way(runtime),
            times,
        )
    return {_EMPTY: empty, _PLAN: plan, _URGENT: urgent}


@contextmanager
def _outbox(bench: Bench) -> Iterator[Ours]:
    settings: dict[str, Any] = {
        "OUTBOX_SERVERS": [{"name": "mx", "server": "127.0.0.1", "port": 25}],
        "OUTBOX_ROUTES": [{"name": name, "tag": name, "servers": ["mx"]} for name in ROUTES],
        "OUTBOX_DOMAIN_RATES": {f"d{number}.example": "20/s" for number in range(DOMAINS)},
    }
    with ours(bench.postgres.new_database(), bench.redis.url, 25, **settings) as made:
        yield made


def _occupy(made: Ours, lanes: int) -> None:
    """Commit some emails to each of so many domains, over the routes in turn."""
    tags = [None, *ROUTES]
    for number in range(lanes):
        emails = (message_to(f"reader-{n}@d{number}.example") for n in range(EMAILS))
        made.app.outbox.enqueue_many(emails, tag=tags[number % len(tags)])
    made.app.db.session.commit()
    made.run("VACUUM (ANALYZE) outbox_email")
