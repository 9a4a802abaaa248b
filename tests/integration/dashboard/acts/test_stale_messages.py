"""A message's page that is older than what came of it since: its buttons act on what it shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outbox import Status
from outbox.worker.jobs import run_jobs
from tests.integration.dashboard.acts.test_stale_pages import form_at, press, sent
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import end_so, stuck

pytestmark = pytest.mark.each_database

ENDS = [
    (Status.FAILED, Status.FAILED),
    (Status.FAILED, Status.UNKNOWN),
    (Status.UNKNOWN, Status.UNKNOWN),
]
"""How the message had ended when the page was made, and how the retry of another person ended."""
VERDICTS = [Status.SENT, Status.FAILED]
"""It arrived, or it did not."""


def by_ada(desk: Desk, path: str) -> None:
    press(desk, "ada", path, f"{path}/retry")


def by_the_app(desk: Desk, path: str) -> None:
    desk.shop.outbox.retry(number(path))


def by_a_job(desk: Desk, path: str) -> None:
    desk.shop.outbox.start_job("retry", status="failed", by="ada")
    run_jobs(desk.shop.runtime)


def number(path: str) -> int:
    return int(path.rpartition("/")[2])


def stale(desk: Desk, status: Status) -> tuple[str, str]:
    """Return the path of a message that needs a person, and the page of it that bob has open."""
    path = f"/messages/{stuck(desk.shop, status)}"
    desk.who = "bob"
    return path, desk.get(path).text


def ended_anew(
    desk: Desk, path: str, status: Status, retried: Callable[[Desk, str], None] = by_ada
) -> None:
    """Have the message retried: it was sent once more, and ended so."""
    retried(desk, path)
    desk.shop.later(1)
    end_so(desk.shop, number(path), status)
    desk.who = "bob"


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize(("shown", "newer"), ENDS)
def test_a_stale_page_retries_no_message_that_was_retried_since(
    desk: Desk, shown: Status, newer: Status
) -> None:
    path, page = stale(desk, shown)
    ended_anew(desk, path, newer)
    told = sent(desk, f"{path}/retry", form_at(page, f"{path}/retry"))
    assert desk.shop.status(number(path)) is newer
    assert "Nothing was changed. Your “retry” came too late:" in told
    assert f"the message has changed since your page was made, and is {newer} now." in told
    assert "Before you, ada: retry (pending)" in told
    assert "Done." in press(desk, "bob", path, f"{path}/retry")
    assert desk.shop.status(number(path)) is Status.PENDING


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("retried", [by_the_app, by_a_job])
def test_so_it_is_where_no_act_on_the_message_alone_is_in_the_audit(
    desk: Desk, retried: Callable[[Desk, str], None]
) -> None:
    path, page = stale(desk, Status.FAILED)
    ended_anew(desk, path, Status.FAILED, retried)
    told = sent(desk, f"{path}/retry", form_at(page, f"{path}/retry"))
    assert "Nothing was changed." in told
    assert desk.shop.status(number(path)) is Status.FAILED


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_stale_page_settles_no_doubt_that_came_since(desk: Desk, verdict: Status) -> None:
    """Whoever asked the recipient about the first copy knows nothing of the second one."""
    path, page = stale(desk, Status.UNKNOWN)
    ended_anew(desk, path, Status.UNKNOWN)
    fields = form_at(page, f"{path}/resolve") | {"outcome": verdict}
    told = sent(desk, f"{path}/resolve", fields)
    assert desk.shop.status(number(path)) is Status.UNKNOWN
    assert "the message has changed since your page was made, and is unknown now." in told
    assert "Before you, ada: retry (pending)" in told
    fresh = form_at(desk.get(path).text, f"{path}/resolve") | {"outcome": verdict}
    assert "Done." in sent(desk, f"{path}/resolve", fresh)
    assert desk.shop.status(number(path)) is verdict


@pytest.mark.long
def test_what_waits_again_or_was_settled_is_told_by_its_status(desk: Desk) -> None:
    path, page = stale(desk, Status.UNKNOWN)
    by_ada(desk, path)
    desk.who = "bob"
    fields = form_at(page, f"{path}/resolve") | {"outcome": "failed"}
    assert "the message is pending." in sent(desk, f"{path}/resolve", fields)
    assert "the message is pending already." in sent(desk, f"{path}/retry", fields)


def test_a_wrong_moment_in_a_form_changes_nothing(desk: Desk) -> None:
    path, page = stale(desk, Status.UNKNOWN)
    for act in ("retry", "resolve"):
        fields = form_at(page, f"{path}/{act}") | {"since": "yesterday", "outcome": "failed"}
        assert desk.client.post(f"/outbox{path}/{act}", data=fields).status_code == 400
    assert desk.shop.status(number(path)) is Status.UNKNOWN


def by_a_new_message(desk: Desk, path: str) -> None:
    desk.who = "ada"
    sent(desk, f"{path}/send-again", form_at(desk.get(path).text, f"{path}/send-again"))
    desk.who = "bob"


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("shown", [Status.FAILED, Status.UNKNOWN])
def test_a_stale_page_retries_no_message_that_was_sent_again_since(
    desk: Desk, shown: Status
) -> None:
    path, page = stale(desk, shown)
    by_a_new_message(desk, path)
    told = sent(desk, f"{path}/retry", form_at(page, f"{path}/retry"))
    assert desk.shop.status(number(path)) is shown
    assert "the message was sent again as a new one since your page was made." in told
    assert f"Before you, ada: send again (enqueued as {number(path) + 1})" in told
    assert "Done." in press(desk, "bob", path, f"{path}/retry")


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("retried", [by_ada, by_the_app])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_stale_page_sends_no_message_again_that_was_retried_since(
    desk: Desk, retried: Callable[[Desk, str], None], is_over: bool
) -> None:
    path, page = stale(desk, Status.FAILED)
    if is_over:
        ended_anew(desk, path, Status.FAILED, retried)
    else:
        retried(desk, path)
    desk.who = "bob"
    told = sent(desk, f"{path}/send-again", form_at(page, f"{path}/send-again"))
    assert "No further message was made. The message has changed since your page was made" in told
    assert ("ada: retry (pending)" in told) is (retried is by_ada)
    assert len(desk.shop.outbox.list().emails) == 1
    press(desk, "bob", path, f"{path}/send-again")
    assert len(desk.shop.outbox.list().emails) == 2
