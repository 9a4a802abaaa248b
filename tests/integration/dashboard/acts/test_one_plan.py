"""A plan that is posted twice starts one job: by a double click, a reload, or back and post."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from outbox import Status
from outbox.dashboard.access.csrf import COOKIE
from outbox.flask_ext.jobs import starting
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.acts.test_jobs import FAILED, plan_of
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import written

pytestmark = pytest.mark.each_database

PATIENCE = 60.0
WITHDRAWN: dict[str, Any] = {"action": "cancel", "recipient": "r00000@readers.example"}


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("filters", [FAILED, WITHDRAWN], ids=["retry", "cancel"])
def test_the_second_post_leads_to_the_job_of_the_first(
    desk: Desk, filters: dict[str, Any], is_done: bool
) -> None:
    written(desk.shop, 2)
    written(desk.shop, 2, Status.PENDING)
    plan = plan_of(desk, **filters)
    first = desk.post("/jobs/start", "/pauses", plan=plan)
    if is_done:
        run_jobs(desk.shop.runtime)
    second = desk.post("/jobs/start", "/pauses", plan=plan)
    (job,) = desk.shop.outbox.jobs()
    assert first.location == second.location == f"/outbox/jobs/{job.id}"
    starts = [one for one in desk.shop.outbox.audit() if one.action == "start job"]
    assert len(starts) == 1


def test_two_posts_at_the_same_moment_start_one_job(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(desk.shop, 2)
    plan, token = plan_of(desk, **FAILED), desk.token("/pauses")
    both, compare = Barrier(2, timeout=PATIENCE), starting._compare

    def together(*given: Any) -> None:
        compare(*given)
        both.wait()

    monkeypatch.setattr(starting, "_compare", together)

    cookie = desk.client.get_cookie(COOKIE, path="/outbox")
    assert cookie is not None

    def post(_: int) -> str | None:
        client = desk.shop.app.test_client()
        client.set_cookie(COOKIE, cookie.value, path="/outbox")
        return client.post("/outbox/jobs/start", data={"plan": plan, "csrf_token": token}).location

    with ThreadPoolExecutor(2) as pool:
        places = list(pool.map(post, range(2)))
    (job,) = desk.shop.outbox.jobs()
    assert places == [f"/outbox/jobs/{job.id}"] * 2


def test_the_plan_of_another_dry_run_starts_another_job(desk: Desk) -> None:
    """A person may well do the same again, as to emails that have failed anew."""
    written(desk.shop, 2)
    for _ in range(2):
        desk.post("/jobs/start", "/pauses", plan=plan_of(desk, **FAILED))
        desk.shop.later(1)
    assert len(desk.shop.outbox.jobs()) == 2


def test_another_person_starts_a_job_of_their_own(desk: Desk) -> None:
    written(desk.shop, 2)
    for desk.who in ("ada", "eve"):
        desk.post("/jobs/start", "/pauses", plan=plan_of(desk, **FAILED))
    assert [one.who for one in desk.shop.outbox.jobs()] == ["eve", "ada"]


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("status", [Status.FAILED, Status.PENDING])
def test_a_plan_that_fits_nothing_any_more_starts_no_job_and_says_so(
    desk: Desk, status: Status
) -> None:
    ids = written(desk.shop, 2, status, tag="news")
    action = "retry" if status is Status.FAILED else "cancel"
    plan = plan_of(desk, action=action, status=str(status), tag="news")
    for email_id in ids:
        desk.post(f"/messages/{email_id}/{action}", "/pauses")
    page = desk.followed("/jobs/start", "/pauses", plan=plan)
    assert "Nothing was started. No message fits any more." in page
    assert desk.shop.outbox.jobs() == ()
    assert not [one for one in desk.shop.outbox.audit() if one.action == "start job"]
