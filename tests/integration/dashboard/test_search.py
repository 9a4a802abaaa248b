"""The search of messages and the page of problems: what is typed is guessed, pages go by key."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest

from outbox import Status
from outbox.dashboard.messages import listing
from outbox.dashboard.messages.search_form import LONGEST
from tests.integration.dashboard.acts.test_jobs import FAILED, plan_in
from tests.integration.dashboard.desk import HOSTILE, Desk
from tests.integration.store.jobs.work import written
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shops, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")


def ids(page: str) -> list[int]:
    """Return the messages that a list shows."""
    return [int(found) for found in re.findall(r'<li><a href="/outbox/messages/(\d+)"', page)]


@pytest.mark.long
def test_one_field_finds_by_address_message_id_subject_and_number(desk: Desk) -> None:
    other = desk.enqueue(message("b@customers.example", subject="Your invoice"))
    wanted = desk.enqueue(message("Ada@customers.example", subject="Order 7"))
    email = desk.shop.outbox.get(wanted)
    assert email
    for typed in ("ada@CUSTOMERS.example", email.message_id, email.message_id[1:-1], "order"):
        assert ids(desk.get("/messages", q=f" {typed} ").text) == [wanted], typed
    there_is = f"Message-ID: {email.message_id}"
    for copied in ("<Ada@customers.example>", "mailto:ada@customers.example", there_is):
        assert ids(desk.get("/messages", q=copied).text) == [wanted], copied
    for copied in ('"Ada L." <ada@customers.example>', "To: Ada <ada@customers.example>"):
        assert ids(desk.get("/messages", q=copied).text) == [wanted], copied
    quoted = desk.enqueue(message('"a b"@customers.example', subject="Meet me @ 5 @home"))
    for typed in ('"a b"@customers.example', "meet me @", "Meet me @ 5 @home"):
        assert ids(desk.get("/messages", q=typed).text) == [quoted], typed
    there = desk.get("/messages", 302, q=str(other)).headers["Location"]
    assert there == f"/outbox/messages/{other}"
    assert "Nothing fits" in desk.get("/messages", q="nobody@customers.example").text
    assert "Nothing fits" in desk.get("/messages", q="999").text
    page = desk.get("/messages", q="order-17&x").text
    assert "/outbox/messages?key=order-17%26x" in page
    assert "/outbox/messages?tag=order-17%26x" in page


@pytest.mark.long
def test_a_number_is_found_beside_a_status_and_a_tag_that_the_message_has(desk: Desk) -> None:
    wanted, other = desk.enqueue(message(), tag="order"), desk.enqueue(message())
    numbered = desk.enqueue(message(subject=f"{other} of 7"), tag="order")
    for more in ({"status": "pending"}, {"tag": "order"}, {"status": "pending", "tag": "order"}):
        there = desk.client.get("/outbox/messages", query_string={"q": wanted} | more)
        assert there.headers.get("Location") == f"/outbox/messages/{wanted}", more
    assert ids(desk.get("/messages", q=str(other), tag="order").text) == [numbered]
    assert "Nothing fits" in desk.get("/messages", q=str(wanted), status="sent").text


def test_the_other_fields_narrow_it(desk: Desk) -> None:
    wanted = desk.enqueue(message("a@x.example"), key="order-1", tag="order")
    desk.enqueue(message("a@x.example"), tag="order")
    assert ids(desk.get("/messages", q="a@x.example", key="order-1").text) == [wanted]
    assert len(ids(desk.get("/messages", tag="order", since="2020-01-01").text)) == 2
    assert ids(desk.get("/messages", tag="order", until="2020-01-01").text) == []
    page = desk.get("/messages", 400, since="yesterday", key=HOSTILE).text
    assert "since: must be a date such as" in page
    assert HOSTILE not in page


def test_pages_go_by_key_and_keep_the_search(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    made = [desk.enqueue(message(), tag="a&b") for _ in range(3)]
    page = desk.get("/messages", tag="a&b").text
    assert ids(page) == [made[2], made[1]]
    following = re.search(r'href="/outbox(/messages\?after=[^"]+)" rel="next"', page)
    assert following
    desk.enqueue(message(), tag="a&b")  # shifts nothing
    page = desk.get(unescape(following[1])).text
    assert ids(page) == [made[0]]
    assert 'rel="next"' not in page
    assert "after: " in desk.get("/messages", 400, after="x").text


@pytest.mark.matrix
@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_the_ends_of_the_calendar_are_days_like_others(desk: Desk, name: str, day: str) -> None:
    wanted = desk.enqueue(message(), tag="order")
    is_open = (name == "since") is (day == "0001-01-01")
    chosen: dict[str, Any] = {"tag": "order", name: day}
    assert ids(desk.get("/messages", **chosen).text) == [wanted] * is_open
    page = desk.get("/jobs/new", action="cancel", **chosen).text
    assert (": 1 message<" in page) is is_open


def test_a_job_has_the_days_of_its_dry_run_with_their_zone(desk: Desk) -> None:
    written(desk.shop, 1)
    days: dict[str, Any] = {"since": "2020-01-01", "until": "2120-01-01"}
    page = desk.get("/jobs/new", **FAILED, **days).text
    for told in ("since: 2020-01-01 UTC<", "until: the end of 2120-01-01 UTC<"):
        assert told in page
    page = desk.followed("/jobs/start", "/pauses", plan=plan_in(page))
    for told in ("since: 2020-01-01 00:00 UTC<", "until: 2120-01-02 00:00 UTC<"):
        assert told in page
        assert told in desk.get("/jobs").text
    since = datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    desk.shop.outbox.start_job("retry", status="failed", since=since)
    assert "since: 2019-12-31 23:00 UTC<" in desk.get("/jobs").text


@pytest.mark.long
@pytest.mark.over_and_over
def test_a_long_search_is_refused_and_not_printed(desk: Desk) -> None:
    for name, most in LONGEST.items():
        page = desk.get("/messages", 400, **{name: "x" * 200_000}).text
        assert f"{name}: must be text of at most {most} characters" in page
        assert len(page) < 10_000


def test_a_refusal_has_the_words_of_the_verb(shops: Shops) -> None:
    desk = Desk(shops, OUTBOX_SEARCH=["recipient"])
    page = desk.get("/messages", 400, q="Order").text
    assert "subject: is not indexed: OUTBOX_SEARCH leaves it out" in page


def test_what_is_in_no_index_is_not_told_as_missing(shops: Shops) -> None:
    desk = Desk(shops, OUTBOX_SEARCH=["message_id", "subject"])
    wanted = desk.enqueue(message("ada@customers.example", subject="Meet me @ home"))
    for typed in ("ada@customers.example", "Ada <ada@customers.example>"):
        page = desk.get("/messages", q=typed).text
        assert "recipient: is not indexed: OUTBOX_SEARCH leaves it out" in page, typed
        assert "No message has all of this" not in page
        assert "message_id: " not in page
    email = desk.shop.outbox.get(wanted)
    assert email
    for typed in (email.message_id, "Meet me @ home"):
        page = desk.get("/messages", q=typed).text
        assert ids(page) == [wanted]
        assert "is not indexed" not in page
    assert "No message has all of this" in desk.get("/messages", q="Lunch").text


@pytest.mark.long
def test_problems_are_grouped_with_the_reply(desk: Desk) -> None:
    page = desk.get("/problems").text
    assert "Nothing needs you" in page
    assert "doubt" not in page  # one that waits may be: it is sent again without anybody
    failed, unknown = stuck(desk.shop, Status.FAILED), stuck(desk.shop, Status.UNKNOWN)
    page = desk.get("/problems").text
    assert "2 messages need a person" in page
    for email_id in (failed, unknown):
        assert f'href="/outbox/messages/{email_id}"' in page
    assert "customers.example</strong>" in page
    group = "domain=customers.example&amp;reply=550&amp;server=mx.example:25&amp;phase=dot"
    assert f'href="/outbox/messages?status=failed&amp;{group}"' in unquote(page)
    only = desk.get(f"/messages?status=failed&{unescape(group)}").text
    assert f'href="/outbox/messages/{failed}"' in only
    assert f'href="/outbox/messages/{unknown}"' not in only
    assert [len(desk.shop.outbox.problems(newest=most).groups) for most in (1, 2)] == [1, 2]
    overview = desk.get("/").text
    assert overview.count('<a href="/outbox/problems">1</a>') == 2
