"""encryption: what it costs to store encrypted what emails say, beside storing it in clear."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, at_least
from benchmarks.scenarios.sending.drain import drain

ONE_BY_ONE, MANY, READERS, DRAINED = 3_000, 20_000, 100_000, 20_000
CLEAR, ENCRYPTED = "in clear", "encrypted"
SETTINGS: dict[str, dict[str, Any]] = {
    CLEAR: {},
    ENCRYPTED: {"OUTBOX_ENCRYPTION_KEYS": {"k1": b64encode(bytes(32)).decode()}},
}


def run(bench: Bench) -> list[Row]:
    """Measure each way to enqueue, and the drain; both contestants take turns."""
    one, many = bench.size(ONE_BY_ONE, least=100), bench.size(MANY, least=1000)
    readers, drained = bench.size(READERS, least=2000), bench.size(DRAINED, least=200)
    works: dict[str, Callable[..., float]] = {
        "enqueue one by one": partial(_timed, bench, one, _one_by_one),
        "enqueue different emails in bulk": partial(_timed, bench, many, _different),
        "enqueue a newsletter": partial(_timed, bench, readers, _newsletter),
        "enqueue a newsletter with fields": partial(_timed, bench, many, _fields),
        "drain, 2 processes": partial(drain, bench, drained),
    }
    return [_row(bench, what, work) for what, work in works.items()]


def _row(bench: Bench, what: str, work: Callable[..., float]) -> Row:
    bench.remark(what)
    rates = bench.rates({name: partial(work, **given) for name, given in SETTINGS.items()})
    return Row("encryption", what, rates[ENCRYPTED], rates[CLEAR], at_least(0.9))


def _timed(
    bench: Bench, emails: int, enqueue: Callable[[Ours, int], None], **settings: Any
) -> float:
    with ours(bench.postgres.new_database(), bench.redis.url, 25, **settings) as made:
        begun = time.perf_counter()
        enqueue(made, emails)
        return emails / (time.perf_counter() - begun)


def _one_by_one(made: Ours, emails: int) -> None:
    for number in range(emails):
        made.enqueue_one(number)


def _different(made: Ours, emails: int) -> None:
    made.enqueue(range(emails))


def _newsletter(made: Ours, readers: int) -> None:
    made.newsletter(readers)


def _fields(made: Ours, readers: int) -> None:
    made.newsletter(readers, fields=True)
