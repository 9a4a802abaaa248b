"""The outbox's metrics by name. The names are public: dashboards and alerts rely on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Final

from ..delivery.breaker_timing import BreakerState
from ..delivery.transaction import Verdict
from ..figures.histogram import BOUNDS
from ..fleet import WorkerState
from ..priority import Priority
from .exposition import number
from .families import Family, Kind, Sample
from .scrape import EVENTS, Counted, Halt, Scrape

WAITING: Final = ("due", "scheduled", "claimed", "sending", "attention")
"""The values of the label `state` of `outbox_emails`."""

_EVERY = 2
"""Every second bound of the histogram is a bucket: a series for each costs the monitor memory."""

_EXPECTED = (Verdict.SENT, Verdict.RETRY, Verdict.FAIL, Verdict.UNKNOWN)
"""Verdicts that have a sample from the start: see `scrape.EVENTS`."""

_HALTED = frozenset({BreakerState.OPEN, BreakerState.HALF_OPEN})


def outbox_families(
    scrape: Scrape,
    *,
    servers: Sequence[str],
    routes: Collection[tuple[str, str]],
    workers: Mapping[WorkerState, int],
) -> tuple[Family, ...]:
    """Return all metrics: of what was read, the configured servers, and the workers by state.

    `routes` are the configured pairs of a server and a route over it.
    """
    return (
        up(is_up=True),
        _attempts(scrape.attempts, routes),
        _time_to_accepted(scrape.attempts),
        _gauge(
            "outbox_emails",
            "Emails by state, each counted up to 10000. attention: it needs a person.",
            "state",
            {state: scrape.emails.get(state, 0) for state in WAITING},
        ),
        _gauge(
            "outbox_oldest_due_seconds",
            "How long the oldest due email of a priority has waited. 0 if none is due.",
            "priority",
            _by_priority(scrape.oldest_due),
        ),
        _gauge(
            "outbox_oldest_claimed_seconds",
            "How long the oldest claimed email of a priority has waited. 0 if none is claimed.",
            "priority",
            _by_priority(scrape.oldest_claimed),
        ),
        *_servers(scrape.halts, servers),
        _gauge(
            "outbox_paused",
            "1 for what a person has paused.",
            "scope",
            dict.fromkeys(scrape.paused, 1),
        ),
        _gauge(
            "outbox_workers",
            "Workers by state. Dead ones whose place a later one took are left out.",
            "state",
            {state: workers.get(state, 0) for state in WorkerState},
        ),
        _plain(
            "outbox_beat_age_seconds",
            "Seconds since a task of beat was seen. Beat is seen once a minute.",
            scrape.beat_seconds,
        ),
        _counter(
            "outbox_events_total",
            "Rare events since the tables were made.",
            "event",
            _events(scrape),
        ),
    )


def up(*, is_up: bool) -> Family:
    """Return the metric that tells whether the outbox's tables could be read."""
    return _plain("outbox_up", "1 if the tables of the outbox can be read, and else 0.", is_up)


def _attempts(counted: Sequence[Counted], routes: Collection[tuple[str, str]]) -> Family:
    sums = Counter[tuple[str, str, int, str]]()
    for way, priority, verdict in product(routes, Priority, _EXPECTED):
        sums[*way, int(priority), str(verdict)] = 0
    for one in counted:
        sums[one.server, one.route, one.priority, one.verdict] += one.attempts
    name = "outbox_attempts_total"
    samples = (
        Sample(
            name=name,
            labels={
                "server": server,
                "route": route,
                "priority": _priority(priority),
                "verdict": verdict,
            },
            value=attempts,
        )
        for (server, route, priority, verdict), attempts in sorted(sums.items())
    )
    told = "SMTP attempts by verdict, since the tables were made."
    return Family(name=name, help=told, kind=Kind.COUNTER, samples=tuple(samples))


def _time_to_accepted(counted: Sequence[Counted]) -> Family:
    """Return the histogram. It has no sum, because the table keeps no times, only the bins."""
    bins: dict[int, Counter[int]] = {priority: Counter() for priority in Priority}
    for one in counted:
        if one.verdict == Verdict.SENT:
            bins.setdefault(one.priority, Counter())[one.bin] += one.attempts
    name = "outbox_time_to_accepted_seconds"
    samples = (sample for priority in sorted(bins) for sample in _buckets(name, priority, bins))
    told = "Seconds from the time an email was first due until a server accepted it."
    return Family(name=name, help=told, kind=Kind.HISTOGRAM, samples=tuple(samples))


def _buckets(name: str, priority: int, bins: Mapping[int, Counter[int]]) -> Iterator[Sample]:
    labels = {"priority": _priority(priority)}
    totals = list(accumulate(bins[priority][place] for place in range(len(BOUNDS) + 1)))
    for place in range(1, len(BOUNDS), _EVERY):
        bound = {"le": number(BOUNDS[place])}
        yield Sample(name=f"{name}_bucket", labels=labels | bound, value=totals[place])
    yield Sample(name=f"{name}_bucket", labels=labels | {"le": "+Inf"}, value=totals[-1])
    yield Sample(name=f"{name}_count", labels=labels, value=totals[-1])


def _events(scrape: Scrape) -> dict[str, int]:
    """Return the rare events. A later version may have written others."""
    return dict(sorted((dict.fromkeys(EVENTS, 0) | dict(scrape.events)).items()))


def _priority(number: int) -> str:
    """Return the priority's name. A later version may have others."""
    return Priority(number).name.lower() if number in set(Priority) else str(number)


def _by_priority(seconds: Mapping[int, float]) -> dict[str, float]:
    every = dict.fromkeys(map(int, Priority), 0.0) | dict(seconds)
    return {_priority(priority): every[priority] for priority in sorted(every)}


def _servers(halts: Sequence[Halt], servers: Sequence[str]) -> Iterator[Family]:
    """Yield what is known of the configured servers. Another one is nobody's concern any more."""
    found = {halt.server: halt for halt in halts}
    known = {name: found.get(name) for name in servers}
    yield _gauge(
        "outbox_server_halted",
        "1 if nothing goes over this server, because its circuit breaker is open.",
        "server",
        {name: halt is not None and halt.state in _HALTED for name, halt in known.items()},
    )
    yield _gauge(
        "outbox_server_alert",
        "1 if a person must see to this server.",
        "server",
        {name: halt is not None and halt.alert for name, halt in known.items()},
    )


def _plain(name: str, help: str, value: float | None) -> Family:  # noqa: A002
    found = () if value is None else (Sample(name=name, labels={}, value=value),)
    return Family(name=name, help=help, kind=Kind.GAUGE, samples=found)


def _gauge(name: str, help: str, label: str, values: Mapping[str, float]) -> Family:  # noqa: A002
    return Family(name=name, help=help, kind=Kind.GAUGE, samples=_labelled(name, label, values))


def _counter(name: str, help: str, label: str, values: Mapping[str, float]) -> Family:  # noqa: A002
    return Family(name=name, help=help, kind=Kind.COUNTER, samples=_labelled(name, label, values))


def _labelled(name: str, label: str, values: Mapping[str, float]) -> tuple[Sample, ...]:
    return tuple(
        Sample(name=name, labels={label: str(key)}, value=value) for key, value in values.items()
    )
