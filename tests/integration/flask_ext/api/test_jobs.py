"""`Outbox.start_job` and its kin: what is refused, what is listed, and who is noted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from outbox import Action, DryRun, InvalidMessage, JobState
from tests.integration.store.jobs.work import finished, written
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("sqlite")


@pytest.mark.parametrize(
    ("action", "filters", "told"),
    [
        ("delete", {"tag": "x"}, "action: must be one of retry, cancel, resolve as sent"),
        (None, {"tag": "x"}, "action: must be one of"),
        ("retry", {"tag": "x"}, "status: must be failed or unknown, for the action retry"),
        ("retry", {"status": "sent"}, "status: must be failed or unknown, for the action retry"),
        ("cancel", {"status": "sent"}, "status: must be pending or claimed, for the action cancel"),
        ("cancel", {}, "status: give at least one filter, for the action cancel"),
        ("resolve as sent", {"status": "failed"}, "status: must be unknown"),
        ("cancel", {"recipient": "x"}, "recipient: "),
        ("cancel", {"tag": "x\n"}, "tag: "),
        ("cancel", {"since": datetime(2026, 1, 1)}, "since: "),  # noqa: DTZ001
    ],
)
def test_a_wrong_order_is_refused_and_changes_nothing(
    shop: Shop, action: Any, filters: dict[str, Any], told: str
) -> None:
    for verb in (shop.outbox.dry_run, shop.outbox.start_job):
        with pytest.raises(InvalidMessage) as refusal:
            verb(action, **filters)
        assert str(refusal.value).startswith(told)
    assert shop.outbox.jobs() == ()


@pytest.mark.parametrize("upto", ["x", "7", 7, ""])
def test_only_a_dry_run_says_up_to_where(shop: Shop, upto: Any) -> None:
    with pytest.raises(InvalidMessage, match="upto"):
        shop.outbox.start_job("retry", status="failed", upto=upto)


def test_a_dry_run_changes_nothing(shop: Shop) -> None:
    written(shop, 3)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    found = shop.outbox.dry_run(Action.RETRY, status="failed", since=since)
    assert found == DryRun(action=Action.RETRY, emails=3, more=False, upto=found.upto)
    assert shop.outbox.jobs() == ()
    assert shop.statuses() == ["failed"] * 3
    assert shop.outbox.audit() == ()


def test_jobs_are_listed_newest_first_page_by_page_and_by_state(shop: Shop) -> None:
    written(shop, 1)
    jobs = [shop.outbox.start_job("retry", status="failed", tag=tag) for tag in "abc"]
    ids = [one.id for one in reversed(jobs)]
    assert [one.id for one in shop.outbox.jobs()] == ids
    (newest,) = shop.outbox.jobs(limit=1)
    assert [one.id for one in shop.outbox.jobs(before=newest.id)] == ids[1:]
    finished(shop, jobs[0])
    shop.outbox.stop_job(jobs[1].id)
    found = {state: [one.id for one in shop.outbox.jobs(state=state)] for state in JobState}
    assert found == {
        JobState.DONE: [jobs[0].id], JobState.STOPPED: [jobs[1].id], JobState.RUNNING: [jobs[2].id],
    }  # fmt: skip
    assert shop.outbox.job(jobs[2].id) == jobs[2]
    assert shop.outbox.job(99) is None
    with pytest.raises(InvalidMessage, match="state"):
        shop.outbox.jobs(state="x")
    assert not shop.outbox.stop_job(99)
    assert not shop.outbox.resume_job(99)


def test_each_act_of_a_person_is_in_the_audit_and_so_is_the_end(shop: Shop) -> None:
    written(shop, 2, tag="news")
    job = shop.outbox.start_job("retry", status="failed", tag="news", by="ada")
    assert job.who == "ada"
    shop.outbox.stop_job(job.id, by="bob")
    shop.outbox.stop_job(job.id, by="eve")
    shop.outbox.resume_job(job.id, by="bob")
    finished(shop, job)
    said = [(one.who, one.action, one.result) for one in reversed(shop.outbox.audit())]
    assert said == [
        ("ada", "start job", "2 emails found"),
        ("bob", "stop job", "stopped"),
        ("eve", "stop job", "unchanged: is stopped"),
        ("bob", "resume job", "goes on"),
        ("ada", "end job", "2 changed, 0 unchanged"),
    ]


def test_without_a_name_nothing_is_in_the_audit(shop: Shop) -> None:
    written(shop, 1)
    job = shop.outbox.start_job("retry", status="failed")
    assert job.who is None
    finished(shop, job)
    assert shop.outbox.audit() == ()
