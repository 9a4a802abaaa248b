"""What the page of a message offers: only what would do something."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import stuck
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")

ALWAYS = {"send-again", "suppress"}


def offered(desk: Desk, email_id: int) -> set[str]:
    page = desk.get(f"/messages/{email_id}").text
    return set(re.findall(rf'action="/outbox/messages/{email_id}/([\w-]+)"', page))


def test_only_what_a_status_allows_is_offered(desk: Desk) -> None:
    assert offered(desk, stuck(desk.shop, Status.FAILED)) == {"retry"} | ALWAYS
    assert offered(desk, stuck(desk.shop, Status.UNKNOWN)) == {"retry", "resolve"} | ALWAYS
    assert offered(desk, desk.enqueue(message())) == {"cancel"} | ALWAYS


def time_runs_out(desk: Desk) -> None:
    past = datetime.now(UTC) - timedelta(minutes=5)
    with desk.shop.engine.begin() as connection:
        connection.execute(sa.update(desk.shop.tables.email).values(expires_at=past))


@pytest.mark.long
def test_no_retry_is_offered_of_a_message_whose_time_is_over(desk: Desk) -> None:
    failed, doubtful = stuck(desk.shop, Status.FAILED), stuck(desk.shop, Status.UNKNOWN)
    assert "You can retry it afterwards." in desk.get(f"/messages/{doubtful}").text
    time_runs_out(desk)
    assert offered(desk, failed) == ALWAYS
    assert offered(desk, doubtful) == {"resolve"} | ALWAYS
    page = desk.get(f"/messages/{doubtful}").text
    assert "That is over, so a retry would not send it. “Send again” makes a new message" in page
    assert "retry it afterwards" not in page
    waits = desk.enqueue(message())
    time_runs_out(desk)
    assert "That is over" not in desk.get(f"/messages/{waits}").text


def test_a_retry_that_comes_after_its_time_is_told_so(desk: Desk) -> None:
    path = f"/messages/{stuck(desk.shop, Status.FAILED)}"
    token = desk.token(path)
    time_runs_out(desk)
    done = desk.client.post(f"/outbox{path}/retry", data={"csrf_token": token})
    page = desk.client.get(done.headers["Location"]).text
    assert "the message is past its expires_at; send it again as a new message." in page
    assert desk.shop.statuses() == [Status.FAILED]


def test_a_job_says_why_it_leaves_messages_whose_time_is_over(desk: Desk) -> None:
    failed = stuck(desk.shop, Status.FAILED)
    time_runs_out(desk)
    dry = desk.get("/jobs/new", action="retry", status="failed").text
    assert "So does one whose expires_at has passed" in dry
    job = desk.shop.outbox.start_job("retry", status="failed")
    run_jobs(desk.shop.runtime)
    page = desk.get(f"/jobs/{job.id}").text
    assert "0 due again, 1 unchanged" in page
    assert "an expires_at that has passed" in page
    assert desk.shop.status(failed) is Status.FAILED


def test_nobody_is_asked_to_suppress_whom_the_outbox_has_forgotten(desk: Desk) -> None:
    alone = stuck(desk.shop, Status.FAILED)
    several = desk.enqueue(message("a@customers.example", "b@x.example"))
    desk.shop.outbox.cancel_now(several)
    desk.shop.outbox.erase("a@customers.example")
    assert offered(desk, alone) == set()
    page = desk.get(f"/messages/{several}").text
    assert "Suppress b@x.example" in page
    assert "Suppress erased@invalid" not in page


def test_send_again_makes_a_new_message_and_retry_sends_the_same_one(desk: Desk) -> None:
    """Each of the two labels means one thing: only the page of a message offers the first."""
    for status in (Status.FAILED, Status.UNKNOWN):
        stuck(desk.shop, status)
        page = desk.get("/messages", status=status).text
        assert "Retry them" in page
        assert "again" not in page.lower()
        dry = desk.get("/jobs/new", action="retry", status=status).text
        assert '<h1 id="what">Retry: 1 message</h1>' in dry
        assert "Retry them</button>" in dry
    assert "Retry the failed ones" in desk.get("/messages", since="2026-01-01").text
    assert "Retry all that failed" in desk.get("/problems").text
    page = desk.get("/messages/1").text
    assert re.findall(r"<summary[^>]*>(Retry|Send again)<", page) == ["Retry", "Send again"]
