"""newsletter: the enqueue of one content for 100,000 readers: its rate, and the bytes an email."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from benchmarks.bench import Bench
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_least, at_most

READERS = 100_000
_BYTES = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relname LIKE 'outbox!_%' ESCAPE '!' AND relkind = 'r'"
)


def run(bench: Bench) -> list[Row]:
    """Measure rows per second with the commit, bytes in all our tables per email, and contents.

    What the search indexes by default costs bytes of its own, so they are counted without it, too.
    """
    readers = bench.size(READERS, least=2000)
    rates: list[float] = []
    sizes, bare, contents = [], [], []
    for _ in range(bench.rounds):
        with _made(bench) as made:
            sizes.append(_bytes(made, readers, rates))
            contents.append(float(made.scalar("SELECT count(*) FROM outbox_content")))
        with _made(bench, OUTBOX_SEARCH=[]) as made:
            bare.append(_bytes(made, readers, []))
        bench.remark(f"{rates[-1]:.0f} emails/s, {sizes[-1]:.0f} bytes an email")
    size, default = "table and index an email, OUTBOX_SEARCH=[]", "OUTBOX_SEARCH by default"
    return [
        Row(
            "newsletter", "enqueue a newsletter", _series("emails/s", rates), target=at_least(25e3)
        ),
        Row("newsletter", size, _series("bytes", bare), target=at_most(650)),
        Row("newsletter", f"the same with {default}", _series("bytes", sizes)),
        Row("newsletter", "contents stored", _series("contents", contents), target=at_most(1)),
    ]


def _made(bench: Bench, **settings: Any) -> AbstractContextManager[Ours]:
    return ours(bench.postgres.new_database(), bench.redis.url, 25, **settings)


def _bytes(made: Ours, readers: int, rates: list[float]) -> float:
    """Enqueue a newsletter, add its rate, and return the bytes that an email takes."""
    empty = table_bytes(made)
    begun = time.perf_counter()
    made.newsletter(readers)
    rates.append(readers / (time.perf_counter() - begun))
    return (table_bytes(made) - empty) / readers


def table_bytes(made: Ours) -> int:
    """Return the bytes of all our tables with their indexes."""
    return int(made.scalar(_BYTES))


def _series(unit: str, values: list[float]) -> Series:
    return Series("this project", unit, tuple(values))
