"""What is held since a restore is shown, bounded, and a person releases some of it, or all."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from outbox import Priority, Status
from outbox.dashboard import Role
from outbox.dashboard.controls import held
from outbox.flask_ext.management import corrections
from outbox.store.instance import held as glances
from outbox.store.queries import id_steps
from tests.integration.dashboard.desk import HOSTILE, Desk
from tests.support.shop.shell import runner
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")


def fill(desk: Desk) -> dict[str, int]:
    """Enqueue messages of several kinds, and restore; return their ids."""
    later = datetime.now(UTC) + timedelta(days=1)
    found = {
        "order": desk.enqueue(message(), tag="order-1"),
        "news": desk.enqueue(message(), tag=f"news {HOSTILE}", priority=Priority.BULK),
        "scheduled": desk.enqueue(message(), tag=f"news {HOSTILE}", send_at=later),
        "bare": desk.enqueue(message()),
    }
    desk.shop.outbox.restored(by="bob")
    return found


def going_on(page: str) -> dict[str, str]:
    """Return the fields of the form that goes on."""
    form = page[page.index("data-goes-on") :].partition("</form>")[0]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


def waiting(desk: Desk) -> int:
    return sum(one.emails for one in desk.shop.outbox.held())


def test_it_shows_what_is_held_by_tag_and_priority(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Nothing is held" in desk.get("/held").text
    ids = fill(desk)
    new = desk.enqueue(message())
    page = desk.get("/held").text
    assert "4 messages are held" in page
    assert HOSTILE not in page
    rows = re.findall(r"<tr><td>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 4
    assert sum("1 scheduled for later" in row for row in rows) == 1
    assert all(f"/messages/{one}" in page for one in ids.values())
    assert f"/messages/{new}" not in page
    monkeypatch.setattr(held, "GROUPS", 3)
    monkeypatch.setattr(held, "FIRST", 2)
    page = desk.get("/held").text
    assert "And 1 smaller group." in page
    assert "The first 2" in page


def test_where_not_all_are_counted_no_number_and_no_button_tells_less_than_it_does(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    for tag, options in (("b", {}), ("b", {}), ("b", {"send_at": later}), ("b", {}), ("c", {})):
        desk.enqueue(message(), tag=tag, priority=Priority.NORMAL, **options)
    desk.shop.outbox.restored()
    for most, told in ((6, "5 messages"), (3, "3+ messages")):
        monkeypatch.setattr(glances, "MOST_COUNTED", most)
        page = desk.get("/held").text
        assert f"{told} are held" in page
        (row,) = re.findall(r"<tr><td>.*?>b<.*?</tr>", page, re.DOTALL)
        assert ("3+ messages" in row and "1+ scheduled" in row) is (most == 3)
        assert ("4 messages" in row and "1 scheduled" in row) is (most == 6)
        assert ("Release all of it" in row and "Release all of b, normal" in row) is (most == 3)
        assert ("There may be other groups" in page) is (most == 3)
        assert (">c</a>" in page) is (most == 6)
    assert "4 messages" in desk.followed("/held/release", "/held", tag="b", priority="normal")


@pytest.mark.long
def test_the_overview_leads_to_it(desk: Desk) -> None:
    fill(desk)
    assert '<a href="/outbox/held">See what is held</a>' in desk.get("/").text


@pytest.mark.parametrize(
    ("fields", "released", "what"),
    [
        ({"tag": "order-1"}, 1, {"tag": "order-1"}),
        ({"priority": "bulk"}, 1, {"priority": "bulk"}),
        ({"tag": f"news {HOSTILE}"}, 2, {"tag": f"news {HOSTILE}"}),
        ({"priority": "normal", "scheduled": "on"}, 1, {"priority": "normal", "scheduled": "only"}),
        ({"everything": "on"}, 4, {}),
    ],
)
def test_a_filter_releases_what_it_names_and_leaves_an_entry(
    desk: Desk, fields: dict[str, str], released: int, what: dict[str, str]
) -> None:
    fill(desk)
    page = desk.followed("/held/release", "/held", **fields)
    assert f"{released} message" in page
    assert waiting(desk) == 4 - released
    entry = desk.shop.outbox.audit()[0]
    assert (entry.who, entry.action, entry.what) == ("ada", "release", what)
    assert entry.result == f"{released} released"
    assert "released" in desk.get("/audit").text
    assert ("are held since" in desk.get("/").text) is (released < 4)


@pytest.mark.long
def test_a_filter_that_says_nothing_or_all_at_once_releases_nothing(desk: Desk) -> None:
    fill(desk)
    for fields in ({}, {"tag": "x", "everything": "on"}, {"priority": "x"}, {"tag": "\0"}):
        desk.post("/held/release", "/held", 400, **fields)
    assert "nothing was released" in desk.followed("/held/release", "/held", tag="other")
    assert waiting(desk) == 4


@pytest.mark.long
def test_a_request_releases_a_bounded_part_and_its_page_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_steps, "LOOK", 2)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 2)
    for _ in range(5):
        desk.enqueue(message())
    desk.shop.outbox.restored()
    page = desk.post("/held/release", "/held", 200, everything="on").text
    assert "2 messages are released so far." in page
    fields = going_on(page)
    assert fields.keys() == {"csrf_token", "so_far", "everything"}
    page = desk.client.post("/outbox/held/release", data=fields).text
    assert "4 messages are released so far." in page
    done = desk.client.post("/outbox/held/release", data=going_on(page))
    assert "5 messages are released." in desk.client.get(done.headers["Location"]).text
    assert waiting(desk) == 0


@pytest.mark.long
def test_one_message_is_released_on_its_page(desk: Desk) -> None:
    ids = fill(desk)
    path = f"/messages/{ids['bare']}"
    page = desk.get(path).text
    assert "held since a restore" in page
    assert "in 6" not in page
    page = desk.followed(f"{path}/release", path)
    assert "Release: the message is released." in page
    assert "is not held" in desk.followed(f"{path}/release", path)
    acts = [(one.who, one.action, one.result) for one in desk.shop.outbox.audit(email=ids["bare"])]
    assert acts == [("ada", "release", "unchanged: is not held"), ("ada", "release", "released")]
    assert desk.shop.status(ids["bare"]) is Status.PENDING


def test_who_may_not_act_sees_it_and_is_offered_nothing(desk: Desk) -> None:
    fill(desk)
    desk.role = Role.VIEW
    assert "<form method" not in desk.get("/held").text
    assert desk.client.post("/outbox/held/release").status_code == 403
    assert waiting(desk) == 4


def test_a_restore_and_a_move_are_in_the_audit_with_who_did_them(desk: Desk) -> None:
    desk.enqueue(message())
    shell = runner(desk.shop)
    shell("restored")
    shell("release", "--all")
    shell("moved")
    entries = [(one.action, one.result) for one in reversed(desk.shop.outbox.audit())]
    assert entries == [
        ("restored", "begun"), ("restored", "1 held"), ("release", "1 released"),
        ("moved", "sends from here"),
    ]  # fmt: skip
    assert all(one.who.startswith("shell") for one in desk.shop.outbox.audit())
