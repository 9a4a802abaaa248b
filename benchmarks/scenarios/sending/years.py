"""years: the drain and the purge with 50 million finished emails, and the drain out of 20 million.

It needs an hour and 60 GB on the disk, so it runs only where it is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks import fill
from benchmarks.bench import Bench
from benchmarks.instruments import months
from benchmarks.instruments.lending import outbox_on
from benchmarks.ours import Ours
from benchmarks.results import Row, Series, at_least
from benchmarks.scenarios.sending import purge
from benchmarks.scenarios.sending.drain import drain
from benchmarks.scenarios.sending.growth import before, behind, looks

EMAILS = 20_000
FINISHED = 50_000_000
BACKLOG = 20_000_000
DAYS = 30
"""How many the finished emails are from: what the outbox keeps by default."""
OLD = 20 * 86_400
"""Seconds. A purge removes what is older: a third of the finished emails."""
PURGED = 200_000

_TIMES = 2  # a round measures each contestant so often

_EMPTY = "empty table"


def run(bench: Bench) -> list[Row]:
    """Measure beside an empty table; each of the long ones is gone before the next is filled."""
    return [*_backlog(bench), *_finished(bench)]


def _backlog(bench: Bench) -> list[Row]:
    emails = bench.size(EMAILS, least=200)
    url = bench.postgres.new_database()
    with outbox_on(bench, url) as (made, _):
        fill.backlog(made, max(bench.size(BACKLOG), 4 * _TIMES * emails * bench.rounds))
        _told(bench, made, "20 million due")
    rows = [
        *looks("years", bench, url, "20 million due", 0),
        _beside(bench, "drain out of 20 million due", partial(before, bench, url, emails)),
    ]
    bench.postgres.drop_database(url)
    return rows


def _finished(bench: Bench) -> list[Row]:
    url = bench.postgres.new_database()
    with outbox_on(bench, url) as (made, _):
        fill.history(made, bench.size(FINISHED, least=10_000), days=DAYS)
        _told(bench, made, "50 million finished")
    rows = measured(bench, url)
    bench.postgres.drop_database(url)
    return rows


def measured(bench: Bench, url: str) -> list[Row]:
    """Measure on a database with so many finished emails, at last in partitions."""
    emails = bench.size(EMAILS, least=200)
    work = partial(behind, bench, url, emails)
    rows = [
        *looks("years", bench, url, "50 million finished", emails),
        _beside(bench, "drain, 50 million finished", work),
        *_purge(bench, url, emails),
    ]
    with outbox_on(bench, url) as (made, _):
        months.partition(made)
    rows.append(_beside(bench, "drain, the same in partitions", work))
    with outbox_on(bench, url) as (made, _):
        rows.append(_timed("the old partitions dropped", partial(months.drop_oldest, made)))
    return rows


def _beside(bench: Bench, what: str, work: Callable[[], float]) -> Row:
    alone = partial(drain, bench, bench.size(EMAILS, least=200))
    contestants: dict[str, Callable[[], float]] = {what: work, _EMPTY: alone}
    rates = bench.rates(contestants, rounds=_TIMES * bench.rounds)
    return Row("years", what, rates[what], rates[_EMPTY], at_least(0.9), paired=True)


def _purge(bench: Bench, url: str, emails: int) -> list[Row]:
    what = "drain beside a purge, 50 million finished"
    removed: list[float] = []
    contestants: dict[str, Callable[[], float]] = {
        what: partial(purge.drain, bench, url, emails, removed, older_than=OLD),
        "no purge": partial(purge.drain, bench, url, emails),
    }
    rates = bench.rates(contestants, rounds=_TIMES * bench.rounds)
    speed = Series("removed meanwhile", "emails/s", tuple(removed))
    purged = bench.size(PURGED, least=1_000)
    return [
        Row("years", what, rates[what], rates["no purge"], at_least(0.9), paired=True),
        Row("years", "emails removed beside that drain", speed),
        Row("years", "purged, nothing beside it", _alone(bench, url, purged)),
        purge.reads("years", bench, url, bench.size(purge.COUNTED, least=1_000), older_than=OLD),
    ]


def _alone(bench: Bench, url: str, emails: int) -> Series:
    with outbox_on(bench, url) as (made, _):
        begun = time.perf_counter()
        done = purge.remove(made, emails, older_than=OLD)
        return Series("alone", "emails/s", (done / (time.perf_counter() - begun),))


def _timed(what: str, work: Callable[[], object]) -> Row:
    begun = time.perf_counter()
    work()
    return Row("years", what, Series("once", "s", (time.perf_counter() - begun,)))


def _told(bench: Bench, made: Ours, what: str) -> None:
    size = made.scalar("SELECT pg_size_pretty(pg_database_size(current_database()))")
    bench.remark(f"{what}: {size}")
