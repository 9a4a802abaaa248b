"""An action on all messages of a search: what a dry run has shown is done, and nothing forged."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from itsdangerous import URLSafeTimedSerializer

from outbox import JobState, Status
from outbox.dashboard import Role
from outbox.dashboard.jobs import plan as plans
from outbox.store.jobs import walk
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.desk import HOSTILE, Desk
from tests.integration.dashboard.scene import doubt
from tests.integration.store.jobs.work import end, written
from tests.support.shop.shop import addresses, message, newsletter

pytestmark = pytest.mark.one_database("sqlite")

FAILED: dict[str, Any] = {"action": "retry", "status": "failed"}
PENDING: dict[str, Any] = {"action": "cancel", "status": "pending"}


def offered(desk: Desk, path: str, **filters: Any) -> list[str]:
    """Return the links to dry runs on a page."""
    found = re.findall(r'href="/outbox(/jobs/new\?[^"]*)"', desk.get(path, **filters).text)
    return [unescape(one) for one in found]


def plan_of(desk: Desk, **filters: Any) -> str:
    """Return the plan in the form of a dry run."""
    return plan_in(desk.get("/jobs/new", **filters).text)


def plan_in(page: str) -> str:
    """Return the plan in the form of this page."""
    found = re.search(r'name="plan" value="([^"]+)"', page)
    assert found, "there is nothing to start"
    return unescape(found[1])


def signed(desk: Desk, value: object) -> str:
    """Return a value that is signed as a plan is, and is none."""
    return str(URLSafeTimedSerializer(str(desk.shop.app.secret_key), "outbox-job").dumps(value))


def test_from_a_search_over_its_dry_run_to_the_jobs_end(desk: Desk) -> None:
    ids, others = written(desk.shop, 3, tag="news"), written(desk.shop, 1)
    link = offered(desk, "/messages", tag="news", status="failed")[0]
    page = desk.get(link).text
    assert "Retry: 3 messages" in page
    plan = plan_in(page)
    page = desk.followed("/jobs/start", link, plan=plan)
    assert "0 due again" in page
    assert 'value="0.000"' in page
    (job,) = desk.shop.outbox.jobs()
    page = desk.followed(f"/jobs/{job.id}/stop", f"/jobs/{job.id}")
    assert 'data-state="stopped"' in page
    run_jobs(desk.shop.runtime)
    assert desk.shop.status(ids[0]) is Status.FAILED
    assert 'data-state="running"' in desk.followed(f"/jobs/{job.id}/resume", f"/jobs/{job.id}")
    assert f"Job {job.id}</a> runs (retry)" in desk.get("/now").text
    run_jobs(desk.shop.runtime)
    page = desk.get(f"/jobs/{job.id}/now").text
    assert "3 due again" in page
    assert "<form" not in page
    assert "3 of 3 messages" in desk.get("/jobs").text
    assert {desk.shop.status(one) for one in ids} == {Status.PENDING}
    assert desk.shop.status(others[0]) is Status.FAILED
    said = [(one.who, one.action) for one in reversed(desk.shop.outbox.audit())]
    assert said == [("ada", f"{verb} job") for verb in ("start", "stop", "resume", "end")]


def test_what_a_search_guesses_is_what_its_job_is_for(desk: Desk) -> None:
    written(desk.shop, 3)
    (link, _) = offered(desk, "/messages", q="r00001@readers.example")
    assert link == "/jobs/new?recipient=r00001@readers.example&status=failed&action=retry"
    assert "Retry: 1 message<" in desk.get(link).text
    (link,) = offered(desk, "/messages", q="news", status="failed", since="2026-01-01")
    assert "Retry: 3 messages" in desk.get(link).text


def test_each_status_offers_what_can_be_done(desk: Desk) -> None:
    written(desk.shop, 1)
    written(desk.shop, 1, Status.UNKNOWN)
    written(desk.shop, 1, Status.PENDING, tag="x")

    def actions(**filters: str) -> list[str]:
        return [
            re.findall(r"action=([\w+]+)", one)[0] for one in offered(desk, "/messages", **filters)
        ]

    assert actions() == []
    assert actions(tag="x") == ["retry", "cancel"]
    assert actions(status="failed") == ["retry"]
    assert actions(status="unknown") == ["resolve+as+sent", "resolve+as+failed", "retry"]
    assert actions(status="pending") == ["cancel"]
    assert offered(desk, "/problems") == ["/jobs/new?action=retry&status=failed"]
    assert (
        "A copy of each of these may have arrived"
        in desk.get("/jobs/new", action="retry", status="unknown").text
    )
    assert "That cannot be taken back" in desk.get("/jobs/new", action="cancel", tag="x").text
    desk.role = Role.READ
    assert offered(desk, "/messages", status="failed") == offered(desk, "/problems") == []


def test_a_plan_that_was_changed_or_is_another_persons_or_old_starts_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(desk.shop, 2)
    plan = plan_of(desk, **FAILED)
    desk.who = "eve"
    eves = plan_of(desk, **FAILED)
    desk.who = "ada"
    payload, *signature = plan.rsplit(".", 2)
    forged = (
        "", "x", plan + "x", plan[1:], eves, desk.token("/pauses"),
        ".".join([payload[:-2], *signature]), signed(desk, [1]), signed(desk, "x"),
    )  # fmt: skip
    for one in forged:
        page = desk.post("/jobs/start", "/pauses", 400, plan=one).text
        assert "This form is too old" in page
    monkeypatch.setattr(plans, "LIFETIME", -1)
    desk.post("/jobs/start", "/pauses", 400, plan=plan)
    assert desk.shop.outbox.jobs() == ()
    assert desk.shop.outbox.audit() == ()


@pytest.mark.long
def test_other_fields_of_the_form_say_nothing(desk: Desk) -> None:
    written(desk.shop, 2, tag="a")
    others = written(desk.shop, 2, tag="b")
    plan = plan_of(desk, tag="a", **FAILED)
    fields = {"tag": "b", "status": "pending", "action": "cancel", "upto": "9.9"}
    data = {"csrf_token": desk.token("/pauses"), "plan": plan} | fields
    assert desk.client.post("/outbox/jobs/start", data=data).status_code == 303
    run_jobs(desk.shop.runtime)
    (job,) = desk.shop.outbox.jobs()
    assert (job.action, job.filters, job.changed) == ("retry", {"status": "failed", "tag": "a"}, 2)
    assert {desk.shop.status(one) for one in others} == {Status.FAILED}


@pytest.mark.long
def test_what_fails_after_the_dry_run_is_left(desk: Desk) -> None:
    written(desk.shop, 1)
    plan = plan_of(desk, **FAILED)
    desk.shop.later(5)
    later = written(desk.shop, 1)
    desk.post("/jobs/start", "/pauses", plan=plan)
    run_jobs(desk.shop.runtime)
    assert desk.shop.status(later[0]) is Status.FAILED


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_what_was_open_during_the_dry_run_is_not_withdrawn_unseen(desk: Desk) -> None:
    with desk.shop.session() as session:
        desk.shop.outbox.enqueue_many(newsletter(), addresses(3), session=session)
        desk.enqueue(message())  # its id is higher, and it is there before the others
        plan = plan_of(desk, **PENDING)
        session.commit()
    page = desk.followed("/jobs/start", "/pauses", plan=plan)
    assert "Nothing was started. More messages fit by now" in page
    assert "Withdraw: 4 messages" in page
    assert desk.shop.outbox.jobs() == ()
    assert desk.shop.outbox.audit() == ()
    desk.post("/jobs/start", "/pauses", plan=plan_in(page))
    run_jobs(desk.shop.runtime)
    assert desk.shop.statuses() == ["cancelled"] * 4


def test_what_comes_back_after_the_dry_run_is_not_withdrawn_unseen(desk: Desk) -> None:
    failed = written(desk.shop, 2, tag="a")
    waiting = written(desk.shop, 2, Status.PENDING, tag="a")
    plan = plan_of(desk, action="cancel", tag="a")
    desk.shop.outbox.cancel_now(waiting[0])
    desk.shop.outbox.retry(failed)
    page = desk.followed("/jobs/start", "/pauses", plan=plan)
    assert "Nothing was started" in page
    assert "Withdraw: 3 messages" in page
    assert desk.shop.outbox.jobs() == ()


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.each_database
@pytest.mark.parametrize("filters", [{"tag": "a"}, PENDING | {"since": "2026-01-01"}])
def test_what_comes_back_in_the_place_of_what_went_out_is_not_withdrawn_unseen(
    desk: Desk, filters: dict[str, str]
) -> None:
    failed = [*written(desk.shop, 2, tag="a"), *written(desk.shop, 1, Status.UNKNOWN, tag="a")]
    waiting = written(desk.shop, 3, Status.PENDING, tag="a")
    plan = plan_of(desk, **{"action": "cancel"} | filters)
    desk.shop.later(5)
    end(desk.shop, waiting[:1], Status.SENT)
    end(desk.shop, waiting[1:], Status.FAILED)  # as many as are retried: a count hides those
    desk.shop.outbox.retry(failed[1:])
    page = desk.followed("/jobs/start", "/pauses", plan=plan)
    assert "Nothing was started. Other messages may fit by now" in page
    assert "Withdraw: 2 messages" in page
    assert desk.shop.outbox.jobs() == ()
    assert "0 withdrawn" in desk.followed("/jobs/start", "/pauses", plan=plan_in(page))


def test_a_withdrawal_tells_that_a_message_in_doubt_is_not_cancelled(desk: Desk) -> None:
    written(desk.shop, 1, Status.PENDING)
    doubt(desk.shop)
    told = "a message in doubt ends as unknown"
    page = desk.get("/jobs/new", **PENDING).text
    assert told in page
    desk.post("/jobs/start", "/pauses", plan=plan_in(page))
    run_jobs(desk.shop.runtime)
    assert desk.shop.statuses() == ["unknown"]
    assert told in desk.get("/jobs/1").text
    assert told not in desk.get("/jobs/new", action="retry", status="unknown").text


def test_fewer_than_the_dry_run_has_shown_are_withdrawn(desk: Desk) -> None:
    waiting = written(desk.shop, 3, Status.PENDING)
    plan = plan_of(desk, **PENDING)
    desk.shop.outbox.cancel_now(waiting[0])
    desk.enqueue(message())  # it came later, and is left
    assert "0 withdrawn" in desk.followed("/jobs/start", "/pauses", plan=plan)
    run_jobs(desk.shop.runtime)
    assert desk.shop.statuses() == ["cancelled"] * 3 + ["pending"]


def test_a_count_at_its_bounds_is_compared_with_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = written(desk.shop, 1, tag="a")
    written(desk.shop, 3, Status.PENDING, tag="a")
    exact = plan_of(desk, action="cancel", tag="a")
    monkeypatch.setattr(walk, "MOST_COUNTED", 2)
    bounded = plan_of(desk, action="cancel", tag="a")
    desk.shop.outbox.retry(failed)
    page = desk.followed("/jobs/start", "/pauses", plan=exact)
    assert "Nothing was started. More messages may fit by now" in page
    assert "Withdraw: 2+ messages" in page
    assert "0 withdrawn" in desk.followed("/jobs/start", "/pauses", plan=bounded)


@pytest.mark.long
def test_only_who_may_act_sees_a_dry_run_and_changes_a_job(desk: Desk) -> None:
    written(desk.shop, 1)
    plan, token = plan_of(desk, **FAILED), desk.token("/pauses")
    job = desk.shop.outbox.start_job("retry", status="failed")
    for role in (Role.VIEW, Role.READ):
        desk.role = role
        desk.get("/jobs/new", 403, **FAILED)
        desk.get("/jobs")
        assert "<form" not in desk.get(f"/jobs/{job.id}").text
        for path in ("start", f"{job.id}/stop", f"{job.id}/resume"):
            data = {"csrf_token": token, "plan": plan}
            assert desk.client.post(f"/outbox/jobs/{path}", data=data).status_code == 403
    desk.role = None
    for path in ("/jobs", "/jobs/new", f"/jobs/{job.id}", f"/jobs/{job.id}/now"):
        desk.get(path, 404)
    (found,) = desk.shop.outbox.jobs()
    assert found.state is JobState.RUNNING


def test_a_wrong_order_is_told_and_no_job_is_missing_quietly(desk: Desk) -> None:
    assert "action: must be one of" in desk.get("/jobs/new", 400).text
    assert "status: must be failed or unknown" in desk.get("/jobs/new", 400, action="retry").text
    assert "No message fits" in desk.get("/jobs/new", **FAILED).text
    assert "plan" not in desk.get("/jobs/new", **FAILED).text
    for path in ("/jobs/7", "/jobs/0", "/jobs/7/now"):
        desk.get(path, 404)
    assert "No job yet" in desk.get("/jobs").text


@pytest.mark.long
def test_strangers_words_are_escaped(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    written(desk.shop, 1, tag=HOSTILE)
    desk.who = HOSTILE
    plan = plan_of(desk, tag=HOSTILE, **FAILED)
    desk.post("/jobs/start", "/pauses", plan=plan)
    (job,) = desk.shop.outbox.jobs()
    for path in ("/jobs", f"/jobs/{job.id}", f"/jobs/new?tag={HOSTILE}&action=cancel", "/audit"):
        text = desk.get(path).text
        assert HOSTILE not in text
        assert "&lt;script&gt;" in text
    monkeypatch.setattr("outbox.dashboard.jobs.jobs.PAGE", 1)
    desk.shop.outbox.start_job("retry", status="failed")
    (older,) = re.findall(r"before=(\d+)", desk.get("/jobs").text)
    assert f"/jobs/{job.id}" in desk.get("/jobs", before=older).text


@pytest.mark.long
def test_a_job_of_10_mb_is_refused(desk: Desk) -> None:
    desk.get("/jobs/new", 400, tag="x" * 10_000, **FAILED)
    answer = desk.client.post("/outbox/jobs/start", data={"plan": "x" * 10_000_000})
    assert answer.status_code == 413
