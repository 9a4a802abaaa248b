"""lanes: the time of a sweep with a thousand rated domains over five routes, empty and in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flask_mail

from benchmarks.bench import Bench
from benchmarks.load import HTML, SENDER, SUBJECT, TEXT
from benchmarks.measure import quantile
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from outbox.domain.scheduling.claim_plan import LaneKey, contenders, plan_claims
from outbox.store.queries.sweep.preemption import should_yield_to_urgent
from outbox.store.queries.sweep.sweep_snapshot import Survey, survey
from outbox.worker.sweep import sweep

DOMAINS = 1000
ROUTES = ("second", "third", "fourth", "fifth")
OCCUPIED = 300
EMAILS = 20
_TIMES = 200
_WARM_UP = 20


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
    with _outbox(bench) as made:
        runtime = made.runtime
        empty = _median(bench, lambda: sweep(runtime, lambda _: None))
        _occupy(made, bench.size(OCCUPIED, least=10))
        plan = _median(bench, lambda: _plan(made))
        urgent = _median(
            bench,
            lambda: should_yield_to_urgent(
                runtime.database, runtime.lanes, slots=4, routes=runtime.routes
            ),
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
        emails = (_message(f"reader-{n}@d{number}.example") for n in range(EMAILS))
        made.app.outbox.enqueue_many(emails, tag=tags[number % len(tags)])
    made.app.db.session.commit()
    made.run("VACUUM (ANALYZE) outbox_email")


def _message(address: str) -> flask_mail.Message:
    return flask_mail.Message(SUBJECT, sender=SENDER, recipients=[address], body=TEXT, html=HTML)


def _plan(made: Ours) -> None:
    """Do what a sweep does before its claims."""
    runtime = made.runtime
    settings, lanes = runtime.settings, runtime.lanes
    slots, batch, window = runtime.slots(), settings.batch, settings.window

    def choose(state: Survey) -> list[LaneKey]:
        return contenders(state.due, state.flight, lanes=lanes, lags=state.lags, slots=slots)

    state = survey(runtime.database, lanes, runtime.servers, limit=slots * batch, choose=choose)
    plan_claims(
        state.due,
        state.flight,
        lanes=lanes,
        lags=state.lags,
        slots=slots,
        batch=batch,
        window=window,
    )


def _median(bench: Bench, work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_WARM_UP + bench.size(_TIMES, least=5)):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return quantile(taken[_WARM_UP:], 0.5)
