"""The newsletters: the newest tags with what became of them, and the rest of one is stopped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from outbox import Priority, Status
from outbox.dashboard import Role
from outbox.dashboard.messages import newsletters
from outbox.flask_ext.management import corrections
from outbox.flask_ext.management.newsletters import reports
from outbox.store.queries import id_steps
from outbox.store.records import Depth
from tests.integration.dashboard.desk import HOSTILE, Desk
from tests.integration.dashboard.scene import doubt, ended, send
from tests.integration.store.jobs.work import end
from tests.support.shop.shell import stuck
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")


def figures(page: str) -> dict[str, str]:
    """Return the numbers of the first newsletter on a page."""
    text = re.sub(r"</?a[^>]*>", "", page.partition('<dl class="shares">')[2].partition("</dl>")[0])
    return dict(re.findall(r"<dt>(\w+)</dt>\s*<dd>([^<]*)</dd>", text))


@pytest.mark.long
def test_the_newest_are_listed_first_with_what_became_of_them(desk: Desk) -> None:
    assert "No newsletter yet" in desk.get("/newsletters").text
    send(desk.shop, "news-1")
    desk.enqueue(message(), tag="order-1")
    send(desk.shop, f"news & {HOSTILE}", 3)
    ended(desk.shop, "news-1", Status.SENT, 2)
    ended(desk.shop, "news-1", Status.FAILED, 1)
    page = desk.get("/newsletters").text
    assert "order-1" not in page
    assert HOSTILE not in page
    assert page.index("news &amp; &lt;script") < page.index(">news-1<")
    of_first = page[page.index(">news-1<") :]
    assert figures(of_first) == {"sent": "2", "waiting": "2", "failed": "1", "unknown": "0"}
    assert 'href="/outbox/messages?tag=news-1&amp;status=failed"' in of_first
    assert '<progress value="60" max="100"' in of_first


@pytest.mark.long
def test_they_are_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newsletters, "PAGE", 2)
    for number in range(3):
        send(desk.shop, f"news-{number}", 1)
    first = desk.get("/newsletters").text
    assert re.findall(r">(news-\d)<", first) == ["news-2", "news-1"]
    (before,) = re.findall(r"before=(\d+)", first)
    second = desk.get("/newsletters", before=before).text
    assert re.findall(r">(news-\d)<", second) == ["news-0"]
    assert "Older newsletters" not in second
    assert "That is all" in desk.get("/newsletters", before=1).text
    assert ">news-2<" in desk.get("/newsletters", before="x").text


@pytest.mark.long
def test_many_messages_are_told_by_a_sample(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "OF_ONE", replace(reports.OF_ONE, counted=100))
    send(desk.shop, "news", 400)
    ended(desk.shop, "news", Status.SENT, 100)
    ended(desk.shop, "news", Status.FAILED, 100)
    page = desk.get("/newsletters/tag", tag="news").text
    assert figures(page) == {"sent": "25 %", "waiting": "50 %", "failed": "100", "unknown": "0"}
    assert "100+ messages" in page
    assert "are not counted" in page


@pytest.mark.long
@pytest.mark.each_database
def test_what_failed_before_many_others_is_told_by_the_sample(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "IN_LIST", Depth(counted=10, sample=20, problems=25))
    for tag, emails in (("long ago", 20), ("late", 40), ("few", 200)):
        send(desk.shop, tag, emails)
        desk.shop.later(1)
        ended(desk.shop, tag, Status.FAILED, 20 if emails < 200 else 0)
    one = desk.shop.rows(desk.shop.tables.email)[61]  # the sample of `few` has the one before it
    end(desk.shop, [one.id], Status.FAILED)

    def failed_of(tag: str) -> str:
        page = desk.get("/newsletters").text
        return figures(page[page.index(f">{tag}<") :])["failed"]

    told = {tag: failed_of(tag) for tag in ("long ago", "late", "few")}
    assert told == {"long ago": "100 %", "late": "50 %", "few": "1+"}
    monkeypatch.setattr(reports, "IN_LIST", Depth(counted=10, sample=20, problems=42))
    told = {tag: failed_of(tag) for tag in ("long ago", "late", "few")}
    assert told == {"long ago": "20", "late": "20", "few": "1"}


@pytest.mark.long
def test_the_rest_is_stopped_by_one_click(desk: Desk) -> None:
    send(desk.shop, "news", 5)
    send(desk.shop, "others", 1)
    ended(desk.shop, "news", Status.SENT, 2)
    path = "/newsletters/tag?tag=news"
    page = desk.followed("/newsletters/stop", path, tag="news")
    assert "3 messages are cancelled." in page
    assert figures(page)["cancelled"] == "3"
    assert "Stop the rest" not in page
    (entry,) = desk.shop.outbox.audit()
    assert (entry.who, entry.action, dict(entry.what), entry.result) == (
        "ada", "cancel", {"tag": "news"}, "3 cancelled",
    )  # fmt: skip
    assert desk.shop.outbox.counts(tag="others") == {Status.PENDING: 1}
    again = desk.followed("/newsletters/stop", "/newsletters/tag?tag=others", tag="news")
    assert "Nothing of it was left to stop." in again


@pytest.mark.long
def test_a_request_stops_a_bounded_part_and_its_page_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_steps, "LOOK", 2)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 4)
    send(desk.shop, "news", 9)
    fields = {"tag": "news"}
    found = []
    path = "/newsletters/tag?tag=news"
    while True:
        data = fields | {"csrf_token": desk.token(path)}
        answer = desk.client.post("/outbox/newsletters/stop", data=data)
        found.append(desk.shop.outbox.counts(tag="news").get(Status.PENDING, 0))
        if answer.status_code == 303:
            break
        assert answer.text.count("<form") == 1
        assert "data-goes-on" in answer.text
        fields = dict(re.findall(r'name="(tag|so_far)" value="([^"]+)"', answer.text))
    assert found == [5, 1, 0]
    assert "9 messages are cancelled." in desk.client.get(answer.headers["Location"]).text
    assert sum(int(one.result.split()[0]) for one in desk.shop.outbox.audit()) == 9


@pytest.mark.long
@pytest.mark.databases("sqlite", "postgresql")
def test_what_ends_as_unknown_is_told_and_counts_to_a_requests_bound(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_steps, "LOOK", 1)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 2)
    send(desk.shop, "news", 3)
    doubt(desk.shop)
    path, found = "/newsletters/tag?tag=news", r'name="(tag|so_far)" value="([^"]+)"'
    page = desk.post("/newsletters/stop", path, 200, tag="news").text
    assert desk.shop.statuses() == ["pending", "unknown", "unknown"]
    fields = dict(re.findall(found, page[page.index("data-goes-on") :]))
    page = desk.followed("/newsletters/stop", path, **fields)
    assert "3 messages ended as unknown or sent, and not as cancelled" in page
    assert "Nothing of it was left" not in page
    assert figures(page)["unknown"] == "3"


@pytest.mark.databases("postgresql")
def test_what_another_transaction_holds_is_left_and_told(desk: Desk) -> None:
    send(desk.shop, "news", 3)
    path = "/newsletters/tag?tag=news"
    with desk.shop.session() as session:
        assert desk.shop.outbox.cancel(id=2, session=session) == 1
        page = desk.followed("/newsletters/stop", path, tag="news")
        session.rollback()
    assert "2 messages are cancelled." in page
    assert "1 message was left, because another transaction holds them" in page
    assert "Stop the rest" in page


def test_no_address_makes_a_browser_go_on(desk: Desk) -> None:
    send(desk.shop, "news")
    for path in ("/newsletters/tag?tag=news&stopped=5&after=9&goes_on=9", "/held?after=1"):
        assert "data-goes-on" not in desk.get(path).text
    assert desk.shop.outbox.counts(tag="news") == {Status.PENDING: 5}


def test_a_tag_that_no_message_has_is_not_there(desk: Desk) -> None:
    for tag in ("none", "", "x" * 101):
        assert "No such tag" in desk.get("/newsletters/tag", 404, tag=tag).text
    send(desk.shop, "news")
    assert "tag" in desk.post("/newsletters/stop", "/newsletters/tag?tag=news", 400, tag="").text


def test_who_may_not_act_is_offered_nothing(desk: Desk) -> None:
    send(desk.shop, "news")
    desk.role = Role.READ
    assert "<form method" not in desk.get("/newsletters/tag", tag="news").text
    assert desk.client.post("/outbox/newsletters/stop").status_code == 403


@pytest.mark.long
def test_a_newsletter_is_found_among_many_later_messages(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outbox.store.search.tags.NEWEST", 5)
    monkeypatch.setattr("outbox.store.search.tags.WAITING", 2)
    monkeypatch.setattr("outbox.store.search.spread.PROBES", 10)
    send(desk.shop, "long ago", 60)
    ended(desk.shop, "long ago", Status.SENT, 60)
    send(desk.shop, "waits", 1)
    send(desk.shop, "problem", 1)
    ended(desk.shop, "problem", Status.FAILED, 1)
    for number in range(60):
        desk.enqueue(message(), tag=f"order-{number}")
    stuck(desk.shop, Status.FAILED)
    desk.enqueue(message(), tag="newest", priority=Priority.BULK)
    found = re.findall(r"tag\?tag=([^\"]+)\">", desk.get("/newsletters").text)
    assert sorted(found) == ["long+ago", "newest", "problem", "waits"]
    assert found[0] == "newest"
