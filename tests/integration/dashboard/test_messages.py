"""The list and the page of one message: what they show, and that all of it is escaped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.dashboard import Role
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from tests.integration.dashboard.desk import HOSTILE, PIXEL, Desk, whole
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shops, entry, message

pytestmark = pytest.mark.one_database("sqlite")


def test_the_list_has_the_newest_first_and_can_be_narrowed(desk: Desk) -> None:
    failed = stuck(desk.shop, Status.FAILED)
    waits = desk.enqueue(message("b@customers.example", "c@x.example"), tag="order-7")
    page = desk.get("/messages").text
    assert page.index(f"/messages/{waits}") < page.index(f"/messages/{failed}")
    assert "and 1 other" in page
    only = desk.get("/messages", status="failed").text
    assert f"/messages/{failed}" in only
    assert f"/messages/{waits}" not in only
    assert f"/messages/{waits}" in desk.get("/messages", tag=" order-7 ").text
    assert "Nothing fits" in desk.get("/messages", tag="other").text
    assert "status: must be one of" in desk.get("/messages", 400, status="x").text
    assert "no index has cancelled" in desk.get("/messages", 400, status="cancelled").text


def test_the_empty_list_says_what_will_be_there(desk: Desk) -> None:
    assert "No message yet" in desk.get("/messages").text
    assert desk.client.get("/outbox").status_code == 308


@pytest.mark.long
def test_a_header_that_cannot_be_read_hides_no_page(desk: Desk) -> None:
    """Python's parser raises for a parameter without a value, wherever it meets the header."""
    mail = message_from_bytes(whole().as_bytes())
    for part in mail.walk():
        if part.get_content_maintype() != "multipart" and "Content-Disposition" in part:
            part.replace_header("Content-Disposition", "attachment; filename*")
    mail["Content-Disposition"] = "inline; filename*"
    before, email_id = desk.enqueue(message()), desk.enqueue(mail)
    for view in ("html", "text", "headers", "source"):
        page = desk.get(f"/messages/{email_id}", view=view).text
        assert f"/messages/{email_id}/files/1" in page
    assert "The secret body" in desk.get(f"/messages/{email_id}", view="text").text
    assert "inline; filename*" in desk.get(f"/messages/{email_id}", view="headers").text
    assert desk.get(f"/messages/{email_id}/files/0").data == PIXEL
    assert b"Inner" in desk.get(f"/messages/{email_id}/files/1").data
    desk.get(f"/messages/{before}")


def test_one_message_shows_its_life_with_replies(desk: Desk) -> None:
    email_id = desk.enqueue(message())
    made = desk.shop.sending(email_id)
    reply = Reply(code=550, enhanced="5.1.1", text="no such user")
    end = Outcome(status=Status.FAILED, reply=reply, attempts_added=1)
    ahead = datetime.now(UTC).timestamp() + 60  # the worker's clock
    result = entry(email_id, end, Verdict.FAIL, started_at=ahead - 0.5, finished_at=ahead)
    desk.shop.record(made.token, [result])
    page = desk.get(f"/messages/{email_id}").text
    words = ("Enqueued", "Refused", "550 5.1.1 no such user", "after 0.50 s", "Failed: it is not")
    shown = [page.index(word) for word in words]
    assert shown == sorted(shown)
    assert "mx.example:25" in page
    assert "host:1" in page


def test_one_message_shows_its_trace_if_it_has_one(desk: Desk) -> None:
    email_id = desk.enqueue(message())
    assert "Trace" not in desk.get(f"/messages/{email_id}").text
    trace = "0af7651916cd43dd8448eb211c80319c"
    with desk.shop.engine.begin() as connection:
        known = f"00-{trace}-b7ad6b7169203331-01"
        connection.execute(sa.update(desk.shop.tables.email).values(traceparent=known))
    assert f"<dt>Trace</dt><dd><code>{trace}</code>" in desk.get(f"/messages/{email_id}").text


def test_a_message_that_waits_says_why(desk: Desk) -> None:
    later = datetime.now(UTC) + timedelta(hours=3)
    email_id = desk.enqueue(message(), send_at=later)
    page = desk.get(f"/messages/{email_id}").text
    assert f"Scheduled: its send_at is {later:%Y-%m-%dT%H:%M:%S} UTC</p>" in page
    assert "in 2 hours" in page or "in 3 hours" in page


@pytest.mark.long
def test_what_was_done_is_told_as_past_once_the_message_went_on(desk: Desk) -> None:
    email_id = stuck(desk.shop, Status.FAILED)
    path = f"/messages/{email_id}"
    there = desk.post(f"{path}/retry", path).headers["Location"]
    assert "<strong>Done.</strong> Retry: the message is pending." in desk.client.get(there).text
    desk.shop.outbox.cancel_now(email_id)
    page = desk.client.get(there).text
    assert "the message is pending" not in page
    assert "<strong>Done just now.</strong> Retry: the message was pending then." in page


@pytest.mark.long
def test_a_message_is_called_a_copy_only_if_it_is_one(desk: Desk) -> None:
    first, other = desk.enqueue(message()), desk.enqueue(message())
    there = desk.post(f"/messages/{first}/send-again", f"/messages/{first}").headers["Location"]
    assert "This is a new message" in desk.client.get(there).text
    copy = urlsplit(there).path.removeprefix("/outbox")
    for path, named in ((copy, other), (f"/messages/{other}", first), (copy, 2**70), (copy, -1)):
        assert "This is a new message" not in desk.get(path, copy_of=named).text


@pytest.mark.long
def test_a_life_says_if_it_leaves_acts_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("life", "one"):
        monkeypatch.setattr(f"outbox.dashboard.messages.{name}.ACTS", 2)
    email_id = stuck(desk.shop, Status.FAILED)
    for acts in (2, 3):
        for _ in range(acts - desk.get(f"/messages/{email_id}").text.count("ada: retry")):
            desk.shop.outbox.retry([email_id], by="ada")
        page = desk.get(f"/messages/{email_id}").text
        assert page.count("ada: retry") == 2
        told = f"the newest 2 acts are shown. <code>flask outbox audit --email {email_id}</code>"
        assert (told in page) is (acts > 2)


def test_a_reason_keeps_the_names_of_settings(shops: Shops) -> None:
    desk = Desk(shops, MAIL_SUPPRESS_SEND=True)
    page = desk.get(f"/messages/{desk.enqueue(message())}").text
    assert "MAIL_SUPPRESS_SEND is on, so nothing is sent" in page


def test_each_recipient_is_shown_with_its_reply(desk: Desk) -> None:
    email_id = desk.enqueue(message("a@x.example", "b@x.example"))
    page = desk.get(f"/messages/{email_id}").text
    assert page.count("@x.example</td>") == 2


@pytest.mark.long
def test_all_that_strangers_wrote_is_escaped(desk: Desk) -> None:
    email_id = desk.enqueue(whole(), tag=f"tag {HOSTILE}", key=f"key {HOSTILE}")
    made = desk.shop.sending(email_id)
    reply = Reply(code=550, enhanced="5.1.1", text=f"no {HOSTILE}")
    end = Outcome(status=Status.FAILED, reply=reply, attempts_added=1)
    desk.shop.record(made.token, [entry(email_id, end, Verdict.FAIL, server=HOSTILE)])
    desk.who = f"ada {HOSTILE}"
    desk.post(f"/messages/{email_id}/retry", f"/messages/{email_id}")
    desk.shop.outbox.suppress("a@x.example", HOSTILE)
    pages = [f"/messages/{email_id}", "/messages", "/suppressed", "/audit", "/pauses"]
    pages += [f"/messages/{email_id}?view={view}" for view in ("text", "headers", "source")]
    for path in pages:
        page = desk.get(path)
        assert HOSTILE not in page.text, path
        assert "&lt;script&gt;" in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert "unsafe" not in page.headers["Content-Security-Policy"]


def test_what_is_not_there_has_a_page_of_its_own(desk: Desk) -> None:
    for path in ("/messages/99", "/messages/0", "/messages/x", "/nowhere", "/messages/1/html"):
        page = desk.get(path, 404).text
        assert "There is nothing here" in page
        assert "To the overview" in page
    desk.role = Role.VIEW
    assert "You may look" in desk.get("/messages/1/html", 403).text


@pytest.mark.long
def test_a_message_whose_body_is_gone_says_so_and_offers_nothing_that_needs_it(desk: Desk) -> None:
    email_id = desk.enqueue(message(subject="Your code is 123456"), redact="when sent")
    again = f"/outbox/messages/{email_id}/send-again"
    assert again in desk.get(f"/messages/{email_id}").text
    copy = desk.followed(f"/messages/{email_id}/send-again", f"/messages/{email_id}")
    assert "Your code is 123456" in copy
    assert [row.redact for row in desk.shop.rows(desk.shop.tables.email)] == [True, True]
    desk.shop.outbox.cancel_now(email_id)
    page = desk.get(f"/messages/{email_id}").text
    assert "123456" not in page
    assert "Its body was removed" in page
    for act in (again, "message.eml"):
        assert act not in page
    desk.get(f"/messages/{email_id}/message.eml", 404)


def test_the_life_of_an_erased_message_blames_no_retention(desk: Desk) -> None:
    email_id = desk.enqueue(message("ada@x.example"))
    desk.shop.outbox.erase("ada@x.example")
    page = desk.get(f"/messages/{email_id}").text
    assert '<p class="title">Its body was removed</p>' in page
    assert "ada@x.example" not in page
