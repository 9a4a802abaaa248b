"""A page that is older than what another person did: it undoes nothing of that, and says so."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from outbox import JobState, Status
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import written
from tests.support.shop.shell import stuck
from tests.support.shop.shop import message

pytestmark = pytest.mark.each_database


def form_at(page: str, action: str) -> dict[str, str]:
    """Return the fields of the first form of a page that leads there."""
    form = page[page.index(f'action="/outbox{action}"') :].partition("</form>")[0]
    return {k: unescape(v) for k, v in re.findall(r'name="(\w+)" value="([^"]*)"', form)}


def sent(desk: Desk, action: str, fields: dict[str, str]) -> str:
    """Send a form; return the text of the page to which it leads."""
    done = desk.client.post(f"/outbox{action}", data=fields)
    assert done.status_code == 303, done.text
    return text_of(desk.client.get(done.headers["Location"]).text)


def text_of(page: str) -> str:
    """Return the text of the notices on a page."""
    found = re.findall(r'<p class="notice".*?</p>', page, re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]+>", "", " ".join(found))).split())


def press(desk: Desk, who: str, page: str, action: str) -> str:
    desk.who = who
    return sent(desk, action, form_at(desk.get(page).text, action))


def test_a_stale_page_lifts_no_newer_pause(desk: Desk) -> None:
    press(desk, "ada", "/pauses", "/pauses/pause")
    desk.who = "bob"
    stale = form_at(desk.get("/pauses").text, "/pauses/resume")
    press(desk, "ada", "/pauses", "/pauses/resume")
    desk.shop.later(1)
    press(desk, "ada", "/pauses", "/pauses/pause")
    desk.who = "bob"
    told = sent(desk, "/pauses/resume", stale)
    assert [one.scope for one in desk.shop.outbox.paused()] == [stale["scope"]]
    assert told.startswith("Nothing was changed. ")
    assert "was paused anew since" in told
    assert "Before you, ada: pause (paused)" in told
    assert "Done." in press(desk, "bob", "/pauses", "/pauses/resume")
    assert desk.shop.outbox.paused() == ()


def test_who_pauses_too_late_is_told_who_did(desk: Desk) -> None:
    desk.who = "bob"
    stale = form_at(desk.get("/pauses").text, "/pauses/pause")
    assert press(desk, "ada", "/pauses", "/pauses/pause").startswith("Done.")
    desk.who = "bob"
    told = sent(desk, "/pauses/pause", stale)
    assert "was paused already" in told
    assert "Before you, ada: pause (paused)" in told


def test_a_wrong_moment_in_a_form_lifts_nothing(desk: Desk) -> None:
    press(desk, "ada", "/pauses", "/pauses/pause")
    fields = form_at(desk.get("/pauses").text, "/pauses/resume") | {"since": "yesterday"}
    assert desk.client.post("/outbox/pauses/resume", data=fields).status_code == 400
    assert len(desk.shop.outbox.paused()) == 1


def job_of(desk: Desk) -> str:
    written(desk.shop, 2)
    return f"/jobs/{desk.shop.outbox.start_job('retry', status='failed', by='ada').id}"


@pytest.mark.long
def test_a_stale_page_resumes_no_job_that_was_stopped_anew(desk: Desk) -> None:
    path = job_of(desk)
    press(desk, "ada", path, f"{path}/stop")
    desk.who = "bob"
    stale = form_at(desk.get(path).text, f"{path}/resume")
    press(desk, "ada", path, f"{path}/resume")
    desk.shop.later(1)
    press(desk, "ada", path, f"{path}/stop")
    desk.who = "bob"
    told = sent(desk, f"{path}/resume", stale)
    assert "Nothing was changed." in told
    assert "was stopped anew since" in told
    assert "Before you, ada: stop job (stopped)" in told
    assert desk.shop.outbox.jobs()[0].state is JobState.STOPPED
    assert "Done." in press(desk, "bob", path, f"{path}/resume")
    assert desk.shop.outbox.jobs()[0].state is JobState.RUNNING


def test_who_stops_a_job_too_late_is_told_who_did(desk: Desk) -> None:
    path = job_of(desk)
    desk.who = "bob"
    stale = form_at(desk.get(path).text, f"{path}/stop")
    assert press(desk, "ada", path, f"{path}/stop").startswith("Done.")
    desk.who = "bob"
    told = sent(desk, f"{path}/stop", stale)
    assert "the job is stopped" in told
    assert "Before you, ada: stop job (stopped)" in told


ACTS: dict[str, tuple[Status, dict[str, Any]]] = {
    "retry": (Status.FAILED, {}),
    "cancel": (Status.PENDING, {}),
    "resolve": (Status.UNKNOWN, {"outcome": "sent"}),
}


def message_of(desk: Desk, act: str) -> str:
    status = ACTS[act][0]
    waits = status is Status.PENDING
    return f"/messages/{desk.enqueue(message()) if waits else stuck(desk.shop, status)}"


@pytest.mark.matrix
@pytest.mark.parametrize("act", ACTS)
def test_a_double_click_is_told_that_it_is_done(desk: Desk, act: str) -> None:
    """The browser shows the answer to the second click only."""
    path = message_of(desk, act)
    fields = form_at(desk.get(path).text, f"{path}/{act}")
    first, second = (sent(desk, f"{path}/{act}", fields | ACTS[act][1]) for _ in range(2))
    assert first == second
    assert first.startswith("Done.")


@pytest.mark.long
def test_a_double_click_on_a_pause_and_on_a_job_is_told_so_too(desk: Desk) -> None:
    job = job_of(desk)
    for page, action in (
        ("/pauses", "/pauses/pause"), ("/pauses", "/pauses/resume"),
        (job, f"{job}/stop"), (job, f"{job}/resume"),
    ):  # fmt: skip
        fields = form_at(desk.get(page).text, action)
        first, second = (sent(desk, action, fields) for _ in range(2))
        assert first == second, action
        assert first.startswith("Done."), action


def test_who_comes_too_late_after_an_act_of_their_own_is_not_told_of_another_person(
    desk: Desk,
) -> None:
    """As with two tabs."""
    path = message_of(desk, "cancel")
    other = path.replace(path.rpartition("/")[2], str(desk.enqueue(message())))
    assert other != path
    fields = form_at(desk.get(path).text, f"{path}/cancel")
    sent(desk, f"{path}/cancel", fields)
    told = sent(desk, f"{path}/retry", fields)
    assert "Nothing was changed. Your “retry” came too late: the message is cancelled." in told
    assert "Before that, you: cancel (cancelled)" in told
    assert "ada" not in told


@pytest.mark.matrix
@pytest.mark.parametrize("act", ACTS)
def test_who_was_faster_is_told_so_though_another_act_came_since(desk: Desk, act: str) -> None:
    """Both clicks are committed before the page of the first one is read."""
    path = message_of(desk, act)
    page = desk.get(path).text
    mine = form_at(page, f"{path}/{act}") | ACTS[act][1]
    done = desk.client.post(f"/outbox{path}/{act}", data=mine)
    desk.who = "bob"
    bobs = {"csrf_token": desk.token("/pauses")} | ACTS[act][1]
    late = desk.client.post(f"/outbox{path}/{act}", data=bobs)
    assert "Before you, ada" in text_of(desk.client.get(late.headers["Location"]).text)
    desk.who = "ada"
    assert text_of(desk.client.get(done.headers["Location"]).text).startswith("Done.")


@pytest.mark.long
def test_a_stale_page_removes_no_address_that_was_suppressed_anew(desk: Desk) -> None:
    add, remove, address = "/suppressed/add", "/suppressed/remove", "a@x.example"
    new = {"csrf_token": desk.token("/suppressed"), "new": address, "reason": "asked for samples"}
    sent(desk, add, new)
    desk.who = "bob"
    stale = form_at(desk.get("/suppressed").text, remove)
    desk.who = "ada"
    sent(desk, remove, form_at(desk.get("/suppressed").text, remove))
    desk.shop.later(1)
    sent(desk, add, new | {"reason": "complained"})
    desk.who = "bob"
    told = sent(desk, remove, stale)
    assert told == f"Nothing was changed. {address} was put on the list anew since: see why."
    (found,) = desk.shop.outbox.suppressed()
    assert found.reason == "complained"
    assert desk.shop.outbox.audit()[0].result == "unchanged: was put on the list anew since"
    sent(desk, remove, form_at(desk.get("/suppressed").text, remove))
    assert desk.shop.outbox.suppressed() == ()


def test_who_suppresses_or_removes_too_late_is_told_so(desk: Desk) -> None:
    page = "/suppressed"
    fields = {"csrf_token": desk.token(page), "new": "a@x.example", "address": "a@x.example"}
    assert "a@x.example is on the list." in sent(desk, f"{page}/add", fields)
    assert "a@x.example was on the list already." in sent(desk, f"{page}/add", fields)
    assert "a@x.example was taken off the list." in sent(desk, f"{page}/remove", fields)
    assert "a@x.example is not on the list any more." in sent(desk, f"{page}/remove", fields)
