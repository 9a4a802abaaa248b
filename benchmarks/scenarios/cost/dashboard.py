"""dashboard: each page, each search and a scrape, with millions of messages and a drain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from flask.testing import FlaskClient

from benchmarks import fill
from benchmarks.bench import Bench
from benchmarks.measure import quantile
from benchmarks.ours import Ours, ours
from benchmarks.results import Row, Series, at_most
from outbox import Priority
from outbox.dashboard import Dashboard, Role
from outbox.metrics import Metrics
from tests.support.servers.smtp.smtp_sink import SmtpSink

MESSAGES = 5_000_000
BACKLOG = 400_000
NEWS = "news-2"
_TIMES = 100
_WARM_UP = 3
SCRAPE = "scrape"
_MOST = {SCRAPE: 50}
"""Milliseconds at most, where it is not 100."""

_FAILED = (
    "UPDATE outbox_email SET status = 'failed' WHERE id % 50 = 0 AND status = 'sent'",
    "UPDATE outbox_attempt SET verdict = 'fail', code = 550 + email_id % 5, enhanced = '5.1.1',"
    " reply = 'no such user' WHERE email_id % 50 = 0",
)
_STATS = """
INSERT INTO outbox_stat (span, minute, server, route, priority, verdict, code, bin, attempts)
SELECT span, extract(epoch FROM now())::int / span * (span / 60) - step * (span / 60), server, '',
    5, 'sent', 0, bin, 100
FROM (VALUES (60, 2880), (3600, 9600)) spans (span, steps), generate_series(0, steps - 1) step,
    (VALUES ('mx-1:25'), ('mx-2:25')) servers (server), generate_series(0, 20) bin
"""


_BARRED = """
INSERT INTO outbox_suppression (address, reason, created_at)
SELECT 'gone-' || g || '@example.net', 'by hand', now() - g * interval '1 minute'
FROM generate_series(1, 100000) g
"""
_DONE = """
INSERT INTO outbox_audit (at, who, action, what, result)
SELECT now() - (100000 - g) * interval '1 minute', 'somebody', 'retry', '{}', 'done'
FROM generate_series(1, 100000) g
"""


def run(bench: Bench) -> list[Row]:
    """Fill a table, let a worker drain a backlog beside, and ask for each page in turn."""
    with (
        SmtpSink() as sink,
        ours(bench.postgres.new_database(), bench.redis.url, sink.port, SECRET_KEY="bench") as made,
    ):
        Dashboard(made.app.flask, access=lambda: Role.ACT)
        Metrics(made.app.flask, access=lambda: True)
        backlog = BACKLOG  # of any size of the rest: as many pages are asked for
        _fill(made, bench.size(MESSAGES, least=10_000), backlog)
        client, pages = made.app.flask.test_client(), _pages(made)
        made.worker()
        before = sink.accepted()
        made.sweep()
        found = _measured(client, pages)
        sent = sink.accepted() - before
        if sent >= backlog:
            raise RuntimeError("the drain was over before the last page was asked for")
        bench.remark(f"{sent} emails left while the pages were asked for")
    return [
        Row(
            "dashboard",
            f"{what}, p95",
            Series("this project", "ms", (ms,)),
            target=at_most(_MOST.get(what, 100)),
        )
        for what, ms in found.items()
    ]


def _fill(made: Ours, messages: int, backlog: int) -> None:
    fill.finished(made, messages, _tags(messages))
    made.run(*_FAILED)
    fill.backlog(made, backlog // 5)
    made.app.outbox.restored()
    fill.backlog(made, backlog)
    made.run(
        *(fill.lookups(), _STATS, _BARRED, _DONE),
        *(f"VACUUM (ANALYZE) outbox_{table}" for table in ("stat", "suppression", "audit")),
    )
    fill.settle(made)


def _tags(messages: int) -> dict[str, str]:
    """Make all of them newsletters, with a fifth of the messages each."""
    return {"tag": f"'news-' || g * 5 / {messages + 1}", "priority": str(int(Priority.BULK))}


def _pages(made: Ours) -> dict[str, str]:
    """Return the address of each page by its name."""
    sent = made.scalar("SELECT max(id) FROM outbox_email WHERE status = 'sent'")
    row = f"FROM outbox_email WHERE id = {sent}"
    recipient, message_id = (made.scalar(f"SELECT {n} {row}") for n in ("recipient", "message_id"))
    searches: Mapping[str, Mapping[str, str]] = {
        "by address": {"q": recipient},
        "by Message-ID": {"q": message_id},
        "by subject": {"q": str(made.scalar("SELECT subject FROM outbox_content LIMIT 1"))},
        "by status": {"status": "failed"},
        "by tag": {"tag": NEWS},
        "of a group of problems": {
            "status": "failed",
            "reply": "551 5.1.1",
            "domain": "example.com",
        },
        "by time": {"since": _day(20), "until": _day(10), "status": "sent"},
    }
    pages = {
        "overview": "/",
        "overview, its live part": "/now",
        "figures of a week": "/figures?last=week",
        "messages": "/messages",
        "one message": f"/messages/{sent}",
        **{f"messages {name}": f"/messages?{urlencode(q)}" for name, q in searches.items()},
        "problems": "/problems",
        "newsletters": "/newsletters",
        "one newsletter": f"/newsletters/tag?tag={NEWS}",
        "held": "/held",
        "workers": "/workers",
        "suppressed": "/suppressed",
        "audit": "/audit",
    }
    return {SCRAPE: "/metrics", **{what: f"/outbox{path}" for what, path in pages.items()}}


def _day(ago: int) -> str:
    """Return the day that was so many days ago; all messages are of the last thirty."""
    return (datetime.now(UTC) - timedelta(days=ago)).date().isoformat()


def _measured(client: FlaskClient, pages: Mapping[str, str]) -> dict[str, float]:
    """Return the 95th percentile of each page in milliseconds; the pages take turns."""
    taken: dict[str, list[float]] = {what: [] for what in pages}
    for turn in range(_WARM_UP + _TIMES):
        for what, path in pages.items():
            begun = time.perf_counter()
            answer = client.get(path)
            elapsed = time.perf_counter() - begun
            if answer.status_code != 200:
                raise RuntimeError(f"{path} answered {answer.status_code}")
            if turn >= _WARM_UP:
                taken[what].append(elapsed * 1000)
    return {what: quantile(times, 0.95) for what, times in taken.items()}
