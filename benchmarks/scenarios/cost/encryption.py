"""encryption: what it costs to store encrypted what emails say, beside storing it in clear."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

from benchmarks.bench import Bench
from benchmarks.instruments.side_by_side import all_of, drains, drains_in_turn, in_turn
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_least

ONE_BY_ONE, MANY, READERS, DRAINED = 300, 4_000, 20_000, 5_000
"""Emails of a turn."""

CLEAR, ENCRYPTED = "in clear", "encrypted"
SETTINGS: dict[str, dict[str, Any]] = {
    CLEAR: {},
    ENCRYPTED: {"OUTBOX_ENCRYPTION_KEYS": {"k1": b64encode(bytes(32)).decode()}},
}


def run(bench: Bench) -> list[Row]:
    """Measure each way to enqueue, and the drain; both contestants take turns."""
    works: dict[str, tuple[Callable[[Ours, range], None], int]] = {
        "enqueue one by one": (_one_by_one, bench.size(ONE_BY_ONE, least=10)),
        "enqueue different emails in bulk": (Ours.enqueue, bench.size(MANY, least=1000)),
        "enqueue a newsletter": (_newsletter, bench.size(READERS, least=2000)),
        "enqueue a newsletter with fields": (_fields, bench.size(MANY, least=1000)),
    }
    return [*(_enqueueing(bench, what, *work) for what, work in works.items()), _draining(bench)]


def _enqueueing(
    bench: Bench, what: str, enqueue: Callable[[Ours, range], None], emails: int
) -> Row:
    bench.remark(what)
    contexts = {
        name: ours(bench.postgres.new_database(), bench.redis.url, 25, **given)
        for name, given in SETTINGS.items()
    }
    with all_of(contexts) as shops:
        return _row(
            what,
            in_turn(
                bench,
                {
                    name: partial(_turn, shop, enqueue, emails, count(step=emails))
                    for name, shop in shops.items()
                },
            ),
        )


def _draining(bench: Bench) -> Row:
    what = "drain, 2 processes"
    bench.remark(what)
    with all_of({name: drains(bench, **given) for name, given in SETTINGS.items()}) as contestants:
        rates, _ = drains_in_turn(bench, contestants, bench.size(DRAINED, least=200))
    return _row(what, rates)


def _row(what: str, rates: dict[str, Series]) -> Row:
    return Row("encryption", what, rates[ENCRYPTED], rates[CLEAR], at_least(0.9), paired=True)


def _turn(
    made: Ours, enqueue: Callable[[Ours, range], None], emails: int, starts: Iterator[int]
) -> float:
    numbers = range(start := next(starts), start + emails)  # so no content is stored already
    with made.app.flask.app_context():
        begun = time.perf_counter()
        enqueue(made, numbers)
        return emails / (time.perf_counter() - begun)


def _one_by_one(made: Ours, emails: range) -> None:
    for number in emails:
        made.enqueue_one(number)


def _newsletter(made: Ours, emails: range) -> None:
    made.newsletter(len(emails))


def _fields(made: Ours, emails: range) -> None:
    made.newsletter(len(emails), fields=True)
