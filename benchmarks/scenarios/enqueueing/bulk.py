"""bulk: enqueues 20,000 different emails at once, from their texts to the commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench
from benchmarks.ours import ours
from benchmarks.peers.backlogs import post_office_enqueue
from benchmarks.results import Row, at_least

EMAILS = 20_000


def run(bench: Bench) -> list[Row]:
    """Measure our `enqueue_many` beside post_office's `send_many`, one process each."""
    emails = bench.size(EMAILS, least=1000)
    contestants: dict[str, Callable[[], float]] = {
        "this project": partial(_ours, bench, emails),
        "post_office": partial(post_office_enqueue, bench, emails, "fill"),
    }
    rates = bench.rates(contestants)
    mine, theirs = rates["this project"], rates.get("post_office")
    bench.remark("ours builds and checks each email's bytes here; post_office does when it sends")
    what = "enqueue different emails in bulk"
    return [Row("bulk", what, mine, theirs, at_least(1.5) if theirs else None)]


def _ours(bench: Bench, emails: int) -> float:
    with ours(bench.postgres.new_database(), bench.redis.url, 25) as made:
        begun = time.perf_counter()
        made.enqueue(range(emails))
        return emails / (time.perf_counter() - begun)
