"""growth: the drain with 5 million finished rows in the table, and from a backlog of 1 million."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks import fill
from benchmarks.bench import Bench
from benchmarks.instruments import plans
from benchmarks.instruments.lending import outbox_on
from benchmarks.load import message
from benchmarks.measure import rate
from benchmarks.results import Row, Series, at_least, at_most
from benchmarks.scenarios.sending.drain import drain

EMAILS = 20_000
FINISHED = 5_000_000
BACKLOG = 1_000_000

_EMPTY, _BEHIND, _BEFORE = "empty table", "finished rows behind", "backlog before"


def run(bench: Bench) -> list[Row]:
    """Fill two databases, then measure the same drain on them and on an empty one in turn."""
    emails = bench.size(EMAILS, least=200)
    old, due = bench.postgres.new_database(), bench.postgres.new_database()
    with outbox_on(bench, old) as (made, _):
        fill.finished(made, bench.size(FINISHED, least=1000))
    with outbox_on(bench, due) as (made, _):
        fill.backlog(made, max(bench.size(BACKLOG), 2 * emails * bench.rounds))
    rows = [
        *looks("growth", bench, old, _BEHIND, emails),
        *looks("growth", bench, due, _BEFORE, 0),
    ]
    contestants: dict[str, Callable[[], float]] = {
        _EMPTY: partial(drain, bench, emails),
        _BEHIND: partial(behind, bench, old, emails),
        _BEFORE: partial(before, bench, due, emails),
    }
    rates = bench.rates(contestants)
    for name in (_BEHIND, _BEFORE):
        rows.append(Row("growth", f"drain, {name}", rates[name], rates[_EMPTY], at_least(0.9)))
    return rows


def behind(bench: Bench, url: str, emails: int) -> float:
    """Enqueue so many emails behind all others, send them, and return the rate."""
    with outbox_on(bench, url) as (made, sink):
        made.enqueue(range(emails))
        made.worker()
        return rate(sink, emails, made.sweep)


def before(bench: Bench, url: str, emails: int) -> float:
    """Send the first emails of the backlog; the rest waits for the next round."""
    with outbox_on(bench, url) as (made, sink):
        made.worker()
        figure = rate(sink, emails, made.sweep)
        made.stop()
        made.finish_claims()
        return figure


def looks(scenario: str, bench: Bench, url: str, where: str, emails: int) -> list[Row]:
    """Count the emails, and the pages, that one survey, with its count, and one claim read.

    So many new emails are due by then. The planner's statistics do not know them, as after a real
    newsletter.
    """
    with outbox_on(bench, url) as (made, _):
        made.app.outbox.enqueue_many(map(message, range(emails)), priority="normal")
        found = plans.plans(made)
        fill.settle(made)
        limit = 2 * plans.most(made)  # the survey counts so far, and the claim finds its batch
    for name, plan in found.items():
        bench.remark(f"a sweep, {where}: {name}: {plan}")
    sweep = [found[name] for name in ("survey", "count", "claim")]
    rows, pages = (
        Series("survey and claim", unit, (float(sum(getattr(plan, unit) for plan in sweep)),))
        for unit in ("rows", "pages")
    )
    return [
        Row(scenario, f"rows read by a sweep, {where}", rows, target=at_most(limit)),
        Row(scenario, f"pages read by a sweep, {where}", pages),
    ]
