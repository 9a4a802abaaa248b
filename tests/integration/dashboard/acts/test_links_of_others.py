"""A link says of no act that it came too late: only the answer to the act itself says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outbox import Status
from tests.integration.dashboard.acts.test_jobs import plan_of
from tests.integration.dashboard.acts.test_stale_pages import form_at, text_of
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import written
from tests.support.shop.shell import stuck

pytestmark = pytest.mark.each_database

FAILED = {"action": "retry", "status": "failed"}


@pytest.mark.parametrize("what", ["more", "others", "none"])
def test_a_link_to_a_dry_run_says_of_no_job_that_it_was_not_started(desk: Desk, what: str) -> None:
    assert text_of(desk.get(f"/jobs/new?action=retry&status=failed&{what}=1").text) == ""


@pytest.mark.parametrize("what", ["anew", "again"])
def test_a_link_to_a_message_says_of_no_copy_that_it_was_not_made(desk: Desk, what: str) -> None:
    path = f"/messages/{stuck(desk.shop, Status.FAILED)}"
    desk.post(f"{path}/send-again", path)
    assert text_of(desk.get(path, **{what: 1}).text) == ""


def refused_start(desk: Desk) -> tuple[str, str]:
    """Start what no message fits any more; return where that leads, and another such page."""
    [email_id] = written(desk.shop, 1, tag="news")
    plan = plan_of(desk, **FAILED, tag="news")
    desk.post(f"/messages/{email_id}/retry", "/pauses")
    return desk.post("/jobs/start", "/pauses", plan=plan).location, "/outbox/jobs"


def refused_copy(desk: Desk) -> tuple[str, str]:
    """Send a message again from a page that is older than a retry; return likewise."""
    path, other = (f"/messages/{stuck(desk.shop, Status.FAILED)}" for _ in range(2))
    form = form_at(desk.get(path).text, f"{path}/send-again")
    desk.post(f"{path}/retry", path)
    return desk.client.post(f"/outbox{path}/send-again", data=form).location, f"/outbox{other}"


@pytest.mark.long
@pytest.mark.parametrize("refused", [refused_start, refused_copy])
def test_the_act_says_so_to_its_visitor_on_its_page(
    desk: Desk, refused: Callable[[Desk], tuple[str, str]]
) -> None:
    place, other = refused(desk)
    assert text_of(desk.client.get(place).text).startswith("No")
    query = place.partition("?")[2]
    assert "No" not in text_of(desk.client.get(f"{other}?{query}").text)
    desk.who = "eve"
    assert text_of(desk.client.get(place).text) == ""
