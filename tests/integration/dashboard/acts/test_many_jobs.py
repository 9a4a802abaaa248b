"""100,000 failed messages are sent again by one click, and no request reads all of them.

What requests and steps take is printed, not judged: `pytest -s` shows it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from html import unescape
from typing import TypeVar

import pytest
import sqlalchemy as sa

from outbox import JobState
from outbox.store.jobs.step import step
from outbox.worker import jobs
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.desk import Desk
from tests.support.shop.steps.many import finish

pytestmark = [
    pytest.mark.long,
    pytest.mark.over_and_over,
    pytest.mark.one_database("postgresql"),
]

MANY = 100_000

Result = TypeVar("Result")


class Took:
    """Measures calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def of(self, name: str, work: Callable[[], Result]) -> Result:
        began = time.perf_counter()
        done = work()
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)
        return done

    def tell(self) -> None:
        for name, seconds in self.seconds.items():
            middle, longest = sorted(seconds)[len(seconds) // 2], max(seconds)
            print(
                f"{name}: {len(seconds)} x, {middle * 1e3:.0f} ms, at most {longest * 1e3:.0f} ms"
            )


def test_one_click_sends_100_000_failed_messages_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, took = desk.shop, Took()
    finish(shop.engine, 1, MANY, status="failed")
    shop.later(60.0 * (MANY + 1))  # they were made in the future, a minute apart
    email = shop.tables.email

    def measured(*values: object, **options: object) -> bool:
        return took.of("a step", lambda: step(*values, **options))  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "step", measured)
    took.of("the search", lambda: desk.get("/messages", status="failed"))
    took.of("the problems", lambda: desk.get("/problems"))
    page = took.of("the dry run", lambda: desk.get("/jobs/new", action="retry", status="failed"))
    assert "Retry: 10,000+ messages" in page.text
    plan = unescape(re.findall(r'name="plan" value="([^"]+)"', page.text)[0])
    took.of("the start", lambda: desk.post("/jobs/start", "/pauses", plan=plan))
    turns = 0
    while took.of("a turn", lambda: run_jobs(shop.runtime)):
        turns += 1
        took.of("the job's page", lambda: desk.get("/jobs/1"))
        took.of("the overview", lambda: desk.get("/now"))
    took.tell()
    (job,) = shop.outbox.jobs()
    assert (job.state, job.changed, job.unchanged) == (JobState.DONE, MANY, 0)
    assert turns > 1
    statuses = sa.select(email.c.status, sa.func.count()).group_by(email.c.status)
    with shop.engine.connect() as connection:
        assert connection.execute(statuses).all() == [("pending", MANY)]
