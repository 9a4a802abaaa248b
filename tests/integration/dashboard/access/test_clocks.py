"""Two hosts behind one address, whose clocks differ: a form of the one is good at the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from itsdangerous import TimestampSigner

from outbox import Status
from outbox.domain.config.enqueue_options import Reading
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.acts.test_jobs import FAILED, plan_of
from tests.integration.dashboard.acts.test_stale_pages import form_at
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import written
from tests.support.shop.shell import stuck
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")

LEEWAY, HOUR = 300, 3600


@contextmanager
def host(ahead: int) -> Iterator[None]:
    """Sign within the block as a host does whose clock is so many seconds ahead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimestampSigner, "get_timestamp", lambda _: int(time.time()) + ahead)
        yield


@pytest.mark.parametrize("ahead", [2, LEEWAY - 10, -2, -LEEWAY])
def test_a_form_and_a_plan_of_a_host_whose_clock_differs_are_good(desk: Desk, ahead: int) -> None:
    written(desk.shop, 2)
    with host(ahead):
        plan, token = plan_of(desk, **FAILED), desk.token("/pauses")
    done = desk.client.post("/outbox/jobs/start", data={"csrf_token": token, "plan": plan})
    assert done.status_code == 303, done.text
    run_jobs(desk.shop.runtime)
    assert desk.shop.statuses() == [Status.PENDING] * 2


def test_a_form_from_far_ahead_is_refused_and_the_log_says_why(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """A token must not hold for as long as some clock was wrong."""
    with host(HOUR):
        token = desk.token("/pauses")
    with caplog.at_level(logging.WARNING):
        done = desk.client.post("/outbox/pauses/pause", data={"csrf_token": token, "scope": "all"})
    assert done.status_code == 400
    assert "the clocks of the app&#39;s hosts differ" in done.text
    assert desk.shop.outbox.paused() == ()
    (told,) = [one.getMessage() for one in caplog.records if "clock" in one.getMessage()]
    assert "ahead of this host" in told
    assert token not in told


def test_a_form_that_is_older_than_its_lifetime_is_refused(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    written(desk.shop, 2)
    with host(-HOUR - 10):
        plan = plan_of(desk, **FAILED)
    assert "This form is too old" in desk.post("/jobs/start", "/pauses", 400, plan=plan).text
    with host(-12 * HOUR - 10):
        token = desk.token("/pauses")
    done = desk.client.post("/outbox/pauses/pause", data={"csrf_token": token, "scope": "all"})
    assert done.status_code == 400
    assert (desk.shop.outbox.jobs(), desk.shop.outbox.paused()) == ((), ())
    assert "clock" not in caplog.text


@pytest.mark.long
def test_a_host_whose_clock_is_behind_says_of_nothing_past_that_it_will_be(desk: Desk) -> None:
    """Times are the database's."""
    path = f"/messages/{stuck(desk.shop, Status.FAILED)}"
    stale = form_at(desk.get(path).text, f"{path}/retry")
    desk.post(f"{path}/retry", path)
    email_id = desk.enqueue(message(), send_at=datetime.now(UTC) + timedelta(hours=1))
    desk.who = "bob"
    stale["csrf_token"] = desk.token("/pauses")
    place = desk.client.post(f"/outbox{path}/retry", data=stale).location
    behind = Reading(datetime.now(UTC) - timedelta(seconds=90), "this host's clock")
    desk.shop.app.extensions["outbox"].clock = lambda: behind
    assert "Before you, ada: retry (pending), just now." in desk.client.get(place).text
    assert "in 1 hour" in desk.get(f"/messages/{email_id}").text
