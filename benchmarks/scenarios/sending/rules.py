"""rules: the drain with a million suppressed addresses, and with 10,000 tags, beside neither."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import islice

import flask_mail

from benchmarks.bench import Bench
from benchmarks.instruments.usage import rate_and_time
from benchmarks.load import message_to
from benchmarks.measure import milliseconds
from benchmarks.ours import PROCESSES, Ours, ours
from benchmarks.results import Row, Series, at_least, at_most
from outbox.store.control.barring.barred import barred_among
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 20_000
SUPPRESSED = 1_000_000
TAGS = 10_000
ROUTES = 5
_TIMES = 200

_NONE, _LISTED = "neither", "1,000,000 suppressed"
_TAGGED, _ROUTED = "10,000 tags", "10,000 tags over 5 routes"

_FILL = (
    "INSERT INTO outbox_suppression (address, reason, created_at)"
    " SELECT left(md5(g::text), 16) || '@example.net', 'by hand', now()"
    " FROM generate_series(1, {rows}) g",
    "VACUUM (ANALYZE) outbox_suppression",
    "CHECKPOINT",
)


def run(bench: Bench) -> list[Row]:
    """Measure the drains in turn, each with emails of its own; time the check by itself, too."""
    emails, tags = bench.size(EMAILS, least=400), bench.size(TAGS, least=200)
    fresh, listed = bench.postgres.new_database, bench.postgres.new_database()
    with ours(listed, bench.redis.url, 25) as made:
        made.run(*(one.format(rows=bench.size(SUPPRESSED, least=10_000)) for one in _FILL))
    copied = partial(bench.postgres.copy_of, listed)
    checks: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in (_NONE, _LISTED, _TAGGED, _ROUTED)}
    contestants: dict[str, Callable[[], float]] = {
        _NONE: partial(_drain, bench, fresh, emails, times[_NONE]),
        _LISTED: partial(_drain, bench, copied, emails, times[_LISTED], checks=checks),
        _TAGGED: partial(_drain, bench, fresh, emails, times[_TAGGED], tags=tags),
        _ROUTED: partial(_drain, bench, fresh, emails, times[_ROUTED], tags=tags, is_routed=True),
    }
    rates = bench.rates(contestants)
    alone = rates[_NONE]
    bench.remark(f"the check takes {statistics.median(checks) * 1000:.2f} µs an email")
    taken = {name: Series(name, "µs", tuple(figures)) for name, figures in times.items()}
    rows = [
        row
        for name, most in ((_LISTED, 1.01), (_TAGGED, 1.1), (_ROUTED, 1.1))
        for row in (
            Row("rules", f"drain, {name}", rates[name], alone, at_least(1 / most)),
            Row("rules", f"processor time, {name}", taken[name], taken[_NONE], at_most(most)),
        )
    ]
    share = Series(_LISTED, "%", tuple(map(_share, checks, alone.values)))
    return [*rows, Row("rules", "the check itself, of an email's time", share, target=at_most(1))]


def _share(check: float, speed: float) -> float:
    """Return the check's percentage of what a process has for an email, in milliseconds."""
    return 100 * check / (PROCESSES * 1000 / speed)


def _drain(
    bench: Bench,
    database: Callable[[], str],
    emails: int,
    times: list[float],
    *,
    tags: int = 0,
    is_routed: bool = False,
    checks: list[float] | None = None,
) -> float:
    bench.redis.flushall()
    with SmtpSink() as sink:
        routes = [{"name": f"r{n}", "tag": f"t{n}-*", "servers": ["mx"]} for n in range(ROUTES)]
        with ours(
            database(),
            bench.redis.url,
            sink.port,
            SECRET_KEY="bench",  # without it no address could have been erased
            OUTBOX_SERVERS=[{"name": "mx", "server": "127.0.0.1", "port": sink.port}],
            OUTBOX_ROUTES=routes if is_routed else [],
        ) as made:
            _enqueue(made, emails, tags)
            if checks is not None:
                checks.append(_check(made, bench.size(_TIMES, least=5)))
            figure, time = rate_and_time(made, bench.postgres, made.worker(), sink, emails)
            times.append(time)
            return figure


def _enqueue(made: Ours, emails: int, tags: int) -> None:
    """Commit so many emails to addresses that are spread over the list, and over so many tags."""
    messages = _messages(emails)
    if not tags:
        made.app.outbox.enqueue_many(messages)
    for number in range(tags):
        few = list(islice(messages, -(-emails // tags)))
        if few:
            made.app.outbox.enqueue_many(few, tag=f"t{number % ROUTES}-{_spread(number)}")
    made.app.db.session.commit()


def _messages(emails: int) -> Iterator[flask_mail.Message]:
    return (message_to(f"{_spread(number)}@example.com") for number in range(emails))


def _spread(number: int) -> str:
    """Return the number's name; neighbours are far from each other in an index of such names."""
    return sha256(str(number).encode()).hexdigest()[:16]


def _check(made: Ours, times: int) -> float:
    """Return the milliseconds for an email that a batch's look at the suppression list takes."""
    database, batch = made.runtime.database, made.runtime.settings.batch
    addresses = (f"{_spread(number)}@example.com" for number in range(10**9))

    def check() -> None:
        few = list(islice(addresses, batch))
        assert not barred_among(connection, database, few, erased=False)

    with database.transaction() as connection:
        empty = milliseconds(lambda: list(islice(addresses, batch)), times)
        return (milliseconds(check, times) - empty) / batch
