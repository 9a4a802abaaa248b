"""memory: how much a worker takes for large emails, and an enqueue for 100,000 rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.load import message, newsletter
from benchmarks.measure import forget_peak, held, peak, reached
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from tests.support.servers.smtp.smtp_sink import SmtpSink

EMAILS = 500
ATTACHMENT = 5 * 1000 * 1000
ROWS = 100_000
_MEGABYTE = 1000 * 1000


def run(bench: Bench) -> list[Row]:
    """Measure a worker's memory above idle, and how an enqueue's peak grows with its rows."""
    emails = bench.size(EMAILS, least=20)
    different = _worker_above_idle(bench, emails, _enqueue_large)
    shared = _worker_above_idle(bench, emails, _enqueue_shared)
    rows = bench.size(ROWS, least=10_000)
    grown = [_enqueue_grows(bench, rows, kind) for kind in ("newsletter", "different")]
    return [
        Row("memory", "worker above idle, 5 MB emails", _series(different), target=at_most(150)),
        Row("memory", "the same, one content", _series(shared), target=at_most(150)),
        Row(
            "memory",
            "newsletter enqueued, 10 times the rows",
            _series(grown[0]),
            target=at_most(10),
        ),
        Row(
            "memory",
            "different emails enqueued, 10 times the rows",
            _series(grown[1]),
            target=at_most(10),
        ),
    ]


def _series(size: float) -> Series:
    return Series("this project", "MB more", (size / _MEGABYTE,))


def _worker_above_idle(bench: Bench, emails: int, enqueue: Callable[[Ours, int], None]) -> float:
    """Return the sum of a worker's peaks, less what its processes held before the large emails."""
    bench.redis.flushall()
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port) as made,
    ):
        small = 10
        made.enqueue(range(small))
        worker = made.worker()
        made.sweep()
        reached(sink, small)  # by now every library is loaded
        enqueue(made, emails)
        pids = sorted(member.pid for member in worker.processes())
        idle = sum(map(held, pids))
        for pid in pids:
            forget_peak(pid)
        made.sweep()
        reached(sink, small + emails)
        peaks = {pid: peak(pid) for pid in pids}
        bench.remark(
            f"worker idle {idle / _MEGABYTE:.0f} MB in {len(pids)} processes,"
            f" peaks {', '.join(f'{size / _MEGABYTE:.0f}' for size in peaks.values())} MB"
        )
        return sum(peaks.values()) - idle


def _enqueue_large(made: Ours, emails: int) -> None:
    """Commit emails with random bytes attached to each, so that no two share a content."""
    for number in range(emails):
        large = message(number)
        large.attach("terms.bin", "application/octet-stream", os.urandom(ATTACHMENT))
        made.app.outbox.enqueue(large)
        made.app.db.session.commit()


def _enqueue_shared(made: Ours, emails: int) -> None:
    """Commit one content with an attachment to so many readers."""
    content = newsletter()
    content.attach("terms.bin", "application/octet-stream", os.urandom(ATTACHMENT))
    readers = (f"reader-{number}@example.com" for number in range(emails))
    made.app.outbox.enqueue_many(content, readers, priority="normal")
    made.app.db.session.commit()


def _enqueue_grows(bench: Bench, rows: int, kind: str) -> float:
    """Return by how many bytes a process's peak is higher with ten times the rows."""
    few, many = (_enqueue_peak(bench, number, kind) for number in (rows // 10, rows))
    bench.remark(
        f"{kind}: peak {few / _MEGABYTE:.0f} MB with {rows // 10} rows,"
        f" {many / _MEGABYTE:.0f} MB with {rows}"
    )
    return max(0.0, many - few)


def _enqueue_peak(bench: Bench, rows: int, kind: str) -> float:
    url = bench.postgres.new_database()
    script = [
        sys.executable,
        "-m",
        "benchmarks.instruments.enqueue_peak",
        url,
        bench.redis.url,
        kind,
        str(rows),
    ]
    root = Path(__file__).parents[2]
    done = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True, cwd=root)
    return float(done.stdout)
