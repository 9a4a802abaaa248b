"""growth: the drain with 5 million finished rows in the table, and from a backlog of 1 million."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks import fill, plans
from benchmarks.bench import Bench
from benchmarks.load import message
from benchmarks.measure import rate
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_least, at_most
from benchmarks.scenarios.sending.drain import drain
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000
FINISHED = 5_000_000
BACKLOG = 1_000_000

_EMPTY, _BEHIND, _BEFORE = "empty table", "finished rows behind", "backlog before"


def run(bench: Bench) -> list[Row]:
    """Fill two databases, then measure the same drain on them and on an empty one in turn."""
    emails = bench.size(EMAILS, least=200)
    behind, before = bench.postgres.new_database(), bench.postgres.new_database()
    with _outbox(bench, behind) as (made, _):
        fill.finished(made, bench.size(FINISHED, least=1000))
    with _outbox(bench, before) as (made, _):
        fill.backlog(made, max(bench.size(BACKLOG), 2 * emails * bench.rounds))
    rows = [
        _looks(bench, behind, f"rows read by a sweep, {_BEHIND}", emails),
        _looks(bench, before, f"rows read by a sweep, {_BEFORE}", 0),
    ]
    contestants: dict[str, Callable[[], float]] = {
        _EMPTY: partial(drain, bench, emails),
        _BEHIND: partial(_behind, bench, behind, emails),
        _BEFORE: partial(_before, bench, before, emails),
    }
    rates = bench.rates(contestants)
    for name in (_BEHIND, _BEFORE):
        rows.append(Row("growth", f"drain, {name}", rates[name], rates[_EMPTY], at_least(0.9)))
    return rows


@contextmanager
def _outbox(bench: Bench, url: str) -> Iterator[tuple[Ours, SmtpSink]]:
    bench.redis.flushall()
    with SmtpSink() as sink, ours(url, bench.redis.url, sink.port) as made:
        yield made, sink


def _behind(bench: Bench, url: str, emails: int) -> float:
    with _outbox(bench, url) as (made, sink):
        made.enqueue(range(emails))
        made.worker()
        return rate(sink, emails, made.sweep)


def _before(bench: Bench, url: str, emails: int) -> float:
    """Send the first emails of the backlog; the rest waits for the next round."""
    with _outbox(bench, url) as (made, sink):
        made.worker()
        figure = rate(sink, emails, made.sweep)
        made.stop()
        made.finish_claims()
        return figure


def _looks(bench: Bench, url: str, what: str, emails: int) -> Row:
    """Count the emails that one survey, with its count, and one claim read.

    So many new emails are due by then. The planner's statistics do not know them, as after a real
    newsletter.
    """
    with _outbox(bench, url) as (made, _):
        made.app.outbox.enqueue_many(map(message, range(emails)), priority="normal")
        found = plans.plans(made)
        fill.settle(made)
        limit = 2 * plans.most(made)  # the survey counts so far, and the claim finds its batch
    for name, plan in found.items():
        bench.remark(f"{what}: {name}: {plan}")
    total = float(sum(found[name].rows for name in ("survey", "count", "claim")))
    return Row("growth", what, Series("survey and claim", "rows", (total,)), target=at_most(limit))
