"""urgent: single urgent emails are committed while a newsletter of 100,000 drains."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from sqlalchemy import text

from benchmarks.bench import Bench
from benchmarks.load import message
from benchmarks.measure import quantile, reached
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from outbox import Priority
from tests.support.servers.smtp.smtp_sink import SmtpSink

BULK = 100_000
_PAUSE = 0.05
_ACCEPTED = text(
    "SELECT e.message_id, min(a.finished_at) AS at FROM outbox_email e"
    " JOIN outbox_attempt a ON a.email_id = e.id AND a.verdict = 'sent'"
    f" WHERE e.priority = {int(Priority.URGENT)} GROUP BY e.message_id"
)


def run(bench: Bench) -> list[Row]:
    """Measure the urgent emails' p50 and p99 in each round."""
    medians, tails = [], []
    for _ in range(bench.rounds):
        taken = _latencies(bench, bench.size(BULK, least=2000))
        medians.append(quantile(taken, 0.5))
        tails.append(quantile(taken, 0.99))
        bench.remark(
            f"{len(taken)} urgent emails: p50 {medians[-1]:.0f} ms, p99 {tails[-1]:.0f} ms"
        )
    note = "as the attempt log tells the moment of the 250"
    what = "urgent beside bulk"
    half, most = (Series("this project", "ms", tuple(values)) for values in (medians, tails))
    return [
        Row("urgent", f"{what}, p50", half, note=note),
        Row("urgent", f"{what}, p99", most, target=at_most(250), note=note),
    ]


def _latencies(bench: Bench, bulk: int) -> list[float]:
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port, nudge=True) as made,
    ):
        made.newsletter(bulk)
        made.worker()
        made.sweep()
        reached(sink, min(500, bulk // 4))
        committed = _commit_urgent(made, sink, bulk)
        reached(sink, bulk + len(committed))
        return _taken(made, committed)


def _commit_urgent(made: Ours, sink: SmtpSink, bulk: int) -> dict[str, datetime]:
    """Commit one urgent email after the other until 95 % of the bulk has been accepted."""
    committed = {}
    number = 0
    while sink.accepted() < bulk * 0.95:
        email = made.app.outbox.enqueue(message(number), priority="urgent")
        message_id = email.message_id
        made.app.db.session.commit()
        committed[message_id] = datetime.now(UTC)
        number += 1
        time.sleep(_PAUSE)
    return committed


def _taken(made: Ours, committed: dict[str, datetime]) -> list[float]:
    """Return the milliseconds from each commit to the 250, once the last result is recorded."""
    deadline = time.monotonic() + 30
    while True:
        with made.engine.connect() as connection:
            rows = connection.execute(_ACCEPTED).all()
        if len(rows) >= len(committed):
            return [(row.at - committed[row.message_id]).total_seconds() * 1000 for row in rows]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(rows)} of {len(committed)} urgent emails were recorded")
        time.sleep(0.1)
