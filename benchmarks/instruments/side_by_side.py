"""Contestants that are ready side by side, and take many short turns.

A machine's speed drifts by more than such contestants differ in. So a turn takes about a second,
and the turns of one round are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from benchmarks.bench import Bench
from benchmarks.instruments.usage import processor_time
from benchmarks.measure import rate
from benchmarks.ours import Ours, ours
from benchmarks.results import Series
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.waiting import wait_until

TURNS = 8
"""Turns of each contestant in a round of the bench."""

_LEFT = "SELECT EXISTS (SELECT FROM outbox_email WHERE finished_at IS NULL)"
_SOON = 60.0
"""Seconds in which the last results are written."""


@dataclass(kw_only=True)
class Drains:
    """A contestant whose worker stands still between its turns.

    What it puts off, such as to sum the tallies up, it does in its own next turn.
    """

    made: Ours
    bench: Bench
    worker: CeleryProcess
    sink: SmtpSink
    times: list[float] = field(default_factory=list)  # µs of a processor for an email, each turn
    _numbers: Iterator[int] = field(default_factory=count)

    def turn(self, emails: int) -> float:
        """Enqueue so many emails, let the worker go, and return its rate."""
        with self.made.app.flask.app_context():
            self.made.enqueue(next(self._numbers) for _ in range(emails))
            self.worker.thaw()
            before = self._used()
            figure = rate(self.sink, emails, self.made.sweep)
            wait_until(lambda: not self.made.scalar(_LEFT), _SOON, "the last results")
            self.times.append((self._used() - before) * 1e6 / emails)
            self.worker.freeze()
        return figure

    def scalar(self, statement: str) -> Any:
        """Return the single value that an SQL statement returns."""
        with self.made.app.flask.app_context():
            return self.made.scalar(statement)

    def _used(self) -> float:
        return processor_time(self.worker) + processor_time(self.bench.postgres)


@contextmanager
def drains(bench: Bench, *prepare: str, **settings: Any) -> Iterator[Drains]:
    """Start a worker on a database and a broker of its own; run `prepare` on its tables."""
    with (
        RedisServer() as broker,
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), broker.url, sink.port, **settings) as made,
    ):
        made.run(*prepare)
        worker = made.worker()
        worker.freeze()
        yield Drains(made=made, bench=bench, worker=worker, sink=sink)


def drains_in_turn(
    bench: Bench, contestants: Mapping[str, Drains], emails: int
) -> tuple[dict[str, Series], dict[str, Series]]:
    """Return each contestant's rates, and its processor times."""
    rates = in_turn(bench, {name: partial(one.turn, emails) for name, one in contestants.items()})
    return rates, {
        name: Series(name, "µs", tuple(one.times[1:])) for name, one in contestants.items()
    }


def in_turn(bench: Bench, contestants: Mapping[str, Callable[[], float]]) -> dict[str, Series]:
    """Measure all contestants in turn, after a turn of each that does not count."""
    for turn in contestants.values():
        turn()
    return bench.rates(contestants, rounds=TURNS * bench.rounds)


@contextmanager
def all_of(contexts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Enter all these contexts; yield what they give."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(each) for name, each in contexts.items()}
