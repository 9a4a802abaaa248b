"""`flask outbox job …`: starts, stops, resumes and shows what the workers do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from outbox import Status
from outbox.domain.errors import RowsLocked
from outbox.worker import jobs
from outbox.worker.jobs import run_jobs
from tests.integration.store.jobs.work import written
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("sqlite")


def test_a_job_from_its_dry_run_to_its_end(shop: Shop) -> None:
    run = runner(shop)
    written(shop, 2, tag="news")
    words = ("job", "start", "retry", "--status", "failed", "--tag", "news")
    assert run(*words, "--dry-run").output == "2 emails found\n"
    assert run("jobs").output == ""
    assert run(*words).output == "job 1 has started: 2 emails found\n"
    assert run("job", "stop", 1).output == "job 1 is stopped\n"
    assert "job 1 is not running" in run("job", "stop", 1, code=1).output
    assert "stopped 0%  retry status=failed tag=news: 2 emails found" in run("jobs").output
    assert run("job", "resume", 1).output == "job 1 goes on\n"
    assert "job 1 is not stopped" in run("job", "resume", 1, code=1).output
    run_jobs(shop.runtime)
    line = run("job", "show", 1).output
    assert "done    100%  retry" in line
    assert line.endswith("2 changed, 0 unchanged\n")
    (entry,) = parsed(run("jobs", "--json"))
    assert entry == parsed(run("job", "show", 1, "--json"))
    assert (entry["state"], entry["changed"], entry["filters"]["tag"]) == ("done", 2, "news")
    assert "there is no job 9" in run("job", "show", 9, code=1).output
    assert {one.who.split(":")[0] for one in shop.outbox.audit()} == {"shell"}


@pytest.mark.parametrize("action", ["retry", "resolve as failed"])
def test_a_job_that_left_emails_says_why(shop: Shop, action: str) -> None:
    run, email = runner(shop), shop.tables.email
    written(shop, 1, Status.FAILED if action == "retry" else Status.UNKNOWN)
    run("job", "start", action, "--status", "failed" if action == "retry" else "unknown")
    with shop.engine.begin() as connection:
        over = email.update().values(expires_at=shop.database.now())
        connection.execute(over)
    run_jobs(shop.runtime)
    told = run("job", "show", 1).output
    is_left = action == "retry"
    assert f"{int(not is_left)} changed, {int(is_left)} unchanged" in told
    assert ("an expires_at that has passed (send-again sends" in told) is is_left


def test_what_is_removed_and_what_there_never_was_are_told_apart(shop: Shop) -> None:
    run, table = runner(shop), shop.tables.job
    written(shop, 1)
    filters = ("--status", "failed", "--server", "(none)", "--recipient", "ada@x.example")
    run("job", "start", "retry", *filters)
    line = run("jobs").output
    assert "recipient=ada@x.example server=(none) status=failed:" in line
    run_jobs(shop.runtime)
    with shop.engine.begin() as connection:  # as an older version stored it
        stored = connection.execute(select(table.c.filters)).scalar_one()
        older = json.dumps(json.loads(stored) | {"server": ""})
        connection.execute(table.update().values(filters=older))
    line = run("jobs").output
    assert "recipient=(removed) server=(none) status=failed:" in line
    (entry,) = parsed(run("jobs", "--json"))
    assert entry["filters"] == {"recipient": None, "server": "(none)", "status": "failed"}


def test_a_wrong_call_is_told(shop: Shop) -> None:
    run = runner(shop)
    told = run("job", "start", "retry", "--tag", "x", code=2).output
    assert "status: must be failed or unknown, for the action retry" in told
    assert "Invalid value" in run("job", "start", "delete", code=2).output
    assert shop.outbox.jobs() == ()


def test_a_sweep_from_cron_does_the_jobs(shop: Shop) -> None:
    """Without beat there may be no other sweep."""
    run = runner(shop)
    written(shop, 2)
    run("job", "start", "retry", "--status", "failed")
    run("sweep")
    assert "done    100%  retry" in run("job", "show", 1).output


@pytest.mark.parametrize("error", [RowsLocked(), OSError("gone")])
def test_a_drain_fails_that_leaves_a_job_undone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def away(*_: Any, **__: Any) -> bool:
        raise error

    run = runner(shop)
    written(shop, 1)
    run("job", "start", "retry", "--status", "failed")
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "step", away)
        assert "Error: not done, as the log says why: job 1" in run("drain", code=1).output
    shop.runtime.job_pace.left_until.clear()  # another process
    run("drain")
