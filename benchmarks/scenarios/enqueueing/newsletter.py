"""newsletter: the enqueue of one content for 100,000 readers: its rate, and the bytes per email."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_least, at_most

READERS = 100_000
_BYTES = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relname LIKE 'outbox!_%' ESCAPE '!' AND relkind = 'r'"
)


def run(bench: Bench) -> list[Row]:
    """Measure rows per second with the commit, bytes in all our tables per email, and contents."""
    readers = bench.size(READERS, least=2000)
    rates, sizes, contents = [], [], []
    for _ in range(bench.rounds):
        with ours(bench.postgres.new_database(), bench.redis.url, 25) as made:
            empty = table_bytes(made)
            begun = time.perf_counter()
            made.newsletter(readers)
            rates.append(readers / (time.perf_counter() - begun))
            sizes.append((table_bytes(made) - empty) / readers)
            contents.append(float(made.scalar("SELECT count(*) FROM outbox_content")))
        bench.remark(f"{rates[-1]:.0f} emails/s, {sizes[-1]:.0f} bytes an email")
    return [
        Row(
            "newsletter", "enqueue a newsletter", _series("emails/s", rates), target=at_least(25e3)
        ),
        Row("newsletter", "table and index an email", _series("bytes", sizes), target=at_most(650)),
        Row("newsletter", "contents stored", _series("contents", contents), target=at_most(1)),
    ]


def table_bytes(made: Ours) -> int:
    """Return the bytes of all our tables with their indexes."""
    return int(made.scalar(_BYTES))


def _series(unit: str, values: list[float]) -> Series:
    return Series("this project", unit, tuple(values))
