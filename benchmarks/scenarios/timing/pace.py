"""pace: 50 emails per second over two workers of two processes, with urgent emails among them."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.load import address, message
from benchmarks.measure import STALL, quantile
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_least, at_most
from outbox.domain.scheduling.token_bucket import Rate
from tests.support.servers.smtp.recorder import Recorder
from tests.support.stamps import extremes

RATE = Rate(50, 1)
WINDOW = 10.0
"""Seconds of the stretches in which the most and the fewest emails are counted."""

_SECONDS = 30.0
_BEGINNING = 1.0  # not measured: permits were saved up
_BETWEEN = 0.73  # seconds between urgent emails: so they come in all phases of bulk's windows


def run(bench: Bench) -> list[Row]:
    """Measure the pace that the server sees, and how much bulk goes before an urgent email."""
    fewest, most, ahead = [], [], []
    for _ in range(bench.rounds):
        moments, bulk = _round(bench, max(bench.size(int(_SECONDS)), WINDOW + 5))
        least, highest = extremes([at for at in moments if at > moments[0] + _BEGINNING], WINDOW)
        fewest.append(least / RATE.within(WINDOW))
        most.append(highest / RATE.within(WINDOW))
        ahead.append(max(bulk))
        bench.remark(
            f"{least} to {highest} in any {WINDOW:g} s; bulk before each of {len(bulk)} urgent"
            f" emails: {quantile(bulk, 0.5)} in the median, at most {max(bulk)}"
        )
    note = f"of {RATE.within(WINDOW)} in any {WINDOW:g} s, four processes"
    lowest, top = (Series("this project", "x", tuple(values)) for values in (fewest, most))
    before, limit = Series("this project", "emails", tuple(ahead)), at_most(RATE.chunk)
    return [
        Row("pace", "the fewest at 50 a second", lowest, target=at_least(0.95), note=note),
        Row("pace", "the most at 50 a second", top, target=at_most(1.05), note=note),
        Row("pace", "bulk before an urgent email, at most", before, target=limit, worst=True),
    ]


def _round(bench: Bench, seconds: float) -> tuple[list[float], list[int]]:
    """Return all emails' moments, and the number of bulk emails before each urgent one."""
    bench.redis.flushall()
    with (
        Recorder() as recorder,
        ours(
            bench.postgres.new_database(),
            bench.redis.url,
            recorder.port,
            nudge=True,
            OUTBOX_RATE="50/s",
        ) as made,
    ):
        made.newsletter(2 * RATE.within(seconds))
        for _ in range(2):
            made.worker(2)
        made.beat()
        ahead, began = list[int](), 0.0
        while not began or time.monotonic() < began + seconds:
            ahead.append(_bulk_before(made, recorder, len(ahead)))
            began = began or recorder.stamps()[0].at
            time.sleep(max(0.0, began + len(ahead) * _BETWEEN - time.monotonic()))
        return [stamp.at for stamp in recorder.stamps()], ahead


def _bulk_before(made: Ours, recorder: Recorder, number: int) -> int:
    """Commit an urgent email; return how many emails were accepted between its commit and it."""
    made.app.outbox.enqueue(message(number), priority="urgent")
    made.app.db.session.commit()
    committed = time.monotonic()
    while not (accepted := recorder.at(address(number))):
        if time.monotonic() - committed > STALL:
            raise TimeoutError(f"an urgent email was not accepted within {STALL:g} s")
        time.sleep(0.002)
    return sum(committed < stamp.at < accepted for stamp in recorder.stamps())
