"""What is done in parts may break off: the page tells what is done and left, and goes on."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.dashboard import Role
from outbox.flask_ext.management import corrections
from outbox.store.queries import id_steps
from tests.integration.dashboard.access.test_clocks import HOUR, host
from tests.integration.dashboard.desk import Desk
from tests.integration.dashboard.scene import send
from tests.integration.dashboard.test_errors import FULL
from tests.integration.drivers.test_cut_connections import cut
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")

NEWS = "/newsletters/tag?tag=news"
STOP: tuple[str, str] = ("/newsletters/stop", NEWS)


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request changes four messages, in transactions of two."""
    monkeypatch.setattr(id_steps, "LOOK", 2)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 4)


def form_of(page: str) -> dict[str, str]:
    """Return the fields of the form that goes on, which is the first one on a page."""
    form = page[page.index("<form") :].partition("</form>")[0]
    found = {k: unescape(v) for k, v in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
    assert "so_far" in found, form
    return found


def go_on(desk: Desk, path: str, page: str) -> str:
    """Press the button that goes on, here and on the pages that come of it; return the last one."""
    while True:
        answer = desk.client.post(f"/outbox{path}", data=form_of(page))
        if answer.status_code == 303:
            return desk.client.get(answer.headers["Location"]).text
        assert answer.status_code == 200, answer.text
        page = answer.text


def held(desk: Desk) -> None:
    for _ in range(9):
        desk.enqueue(message())
    desk.shop.outbox.restored()


def waiting(desk: Desk) -> int:
    return desk.shop.outbox.counts(tag="news").get(Status.PENDING, 0)


def refused(desk: Desk, path: str, page: str, **changes: Any) -> str:
    """Send the form of a page as if another host had made it, whose clock is an hour ahead."""
    with host(HOUR):
        changes["csrf_token"] = desk.token("/pauses")
    answer = desk.client.post(f"/outbox{path}", data=form_of(page) | changes)
    assert answer.status_code == 400
    return answer.text


@pytest.mark.long
def test_a_stop_whose_form_is_refused_midway_says_so_and_goes_on(desk: Desk) -> None:
    send(desk.shop, "news", 9)
    page = refused(desk, STOP[0], desk.post(*STOP, 200, tag="news").text)
    assert "4 messages are cancelled so far, and 5 still wait." in page
    assert "What was done before that stays done" in page
    assert "Nothing was changed" not in page
    assert "data-goes-on" not in page
    assert "9 messages are cancelled." in go_on(desk, STOP[0], page)
    assert waiting(desk) == 0


@pytest.mark.databases("sqlite")
def test_a_stop_that_fails_within_a_part_tells_what_that_part_has_done(desk: Desk) -> None:
    send(desk.shop, "news", 9)
    with desk.shop.engine.begin() as connection:
        connection.exec_driver_sql(FULL)
    page = desk.post(*STOP, 500, tag="news").text
    assert waiting(desk) == 7
    assert "2 messages are cancelled so far, and 7 still wait." in page
    with desk.shop.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER full")
    assert "9 messages are cancelled." in go_on(desk, STOP[0], page)
    assert waiting(desk) == 0


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_stop_whose_connection_is_lost_tells_what_it_has_done(desk: Desk) -> None:
    send(desk.shop, "news", 9)
    acts = list[str]()

    @sa.event.listens_for(desk.shop.engine, "before_cursor_execute")
    def lose(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("INSERT INTO outbox_audit"):
            acts.append(statement)
            if len(acts) == 2:
                cut(desk.shop.engine.url.render_as_string(hide_password=False))

    page = desk.post(*STOP, 500, tag="news").text
    assert waiting(desk) == 7
    assert "2 messages are cancelled so far" in page
    assert "9 messages are cancelled." in go_on(desk, STOP[0], page)


@pytest.mark.long
def test_a_release_breaks_off_alike(desk: Desk) -> None:
    held(desk)
    page = desk.post("/held/release", "/held", 200, everything="on").text
    page = refused(desk, "/held/release", page)
    assert "4 messages are released so far, and 5 are still held." in page
    assert "9 messages are released." in go_on(desk, "/held/release", page)
    assert desk.shop.outbox.held() == ()


def test_a_first_part_that_is_refused_has_changed_nothing(desk: Desk) -> None:
    send(desk.shop, "news", 9)
    page = desk.client.post("/outbox/newsletters/stop", data={"tag": "news"}).text
    assert "Nothing was changed." in page
    assert "so far" not in page
    assert "<form" not in page


def test_a_login_that_ends_midway_does_not_deny_what_is_done(desk: Desk) -> None:
    """A login leads to the address of the act, without its form."""
    for path in ("/newsletters/stop", "/held/release"):
        page = desk.client.get(f"/outbox{path}", follow_redirects=True).text
        assert "Nothing was changed" not in page
        assert "What was done before that stays done" in page
    assert (
        "Nothing was changed."
        in desk.client.get("/outbox/pauses/pause", follow_redirects=True).text
    )


def test_who_may_no_longer_act_is_told_what_is_done(desk: Desk) -> None:
    send(desk.shop, "news", 9)
    fields = form_of(desk.post(*STOP, 200, tag="news").text)
    desk.role = Role.VIEW
    answer = desk.client.post("/outbox/newsletters/stop", data=fields)
    assert answer.status_code == 403
    assert "4 messages are cancelled so far, and 5 still wait." in answer.text
    assert "<form" not in answer.text


def test_figures_that_nobody_has_signed_are_not_repeated(desk: Desk) -> None:
    """A link may say anything."""
    send(desk.shop, "news", 5)
    told: list[dict[str, Any]] = [
        {"stopped": "4711", "otherwise": "4711"}, {"released": "4711", "locked": "4711"},
        {"so_far": "4711"}, {"so_far": "[4711,0,0,null]"},
    ]  # fmt: skip
    for fields in told:
        assert "4711" not in desk.get("/newsletters/tag", tag="news", **fields).text
        assert "4711" not in desk.get("/held", **fields).text
    data = {"tag": "news", "csrf_token": desk.token(NEWS), "so_far": "4711"}
    assert desk.client.post("/outbox/newsletters/stop", data=data).status_code == 400
    assert waiting(desk) == 5


def test_figures_are_told_to_the_person_and_of_the_newsletter_that_they_belong_to(
    desk: Desk,
) -> None:
    send(desk.shop, "news", 3)
    send(desk.shop, "other", 3)
    link = desk.post(*STOP, tag="news").headers["Location"]
    told = "3 messages are cancelled."
    assert told in desk.client.get(link).text
    assert "cancelled." not in desk.client.get(link.replace("news", "other")).text
    assert "news" in link
    desk.who = "bob"
    assert told not in desk.client.get(link).text
    assert "ada" not in link


def test_no_name_and_tag_share_a_text_with_another_name_and_tag(desk: Desk) -> None:
    """As `ada stop x` with `y` would with `ada` and `x stop y`, if blanks joined them."""
    send(desk.shop, "y", 3)
    send(desk.shop, "x stop y", 1)
    desk.who = "ada stop x"
    link = desk.post("/newsletters/stop", "/pauses", tag="y").headers["Location"]
    text = link.partition("so_far=")[2]
    told = "3 messages are cancelled."
    assert told in desk.get(f"/newsletters/tag?tag=y&so_far={text}").text
    desk.who = "ada"
    assert told not in desk.get(f"/newsletters/tag?tag=x%20stop%20y&so_far={text}").text


@pytest.mark.long
def test_another_login_midway_does_not_deny_what_is_done(desk: Desk) -> None:
    """The page goes on by itself, and the browser is another person's by then."""
    send(desk.shop, "news", 9)
    fields = form_of(desk.post(*STOP, 200, tag="news").text)
    desk.who = "bob"
    answer = desk.client.post(f"/outbox{STOP[0]}", data=fields)
    assert answer.status_code == 400
    assert waiting(desk) == 5
    assert "Nothing was changed" not in answer.text
    assert "What was done before that stays done" in answer.text
    assert "4 messages" not in answer.text
    assert f'href="/outbox{NEWS}"' in answer.text
    held(desk)
    desk.who = "ada"
    fields = form_of(desk.post("/held/release", "/held", 200, everything="on").text)
    desk.who = "bob"
    page = desk.client.post("/outbox/held/release", data=fields).text
    assert "What was done before that stays done" in page
    assert 'class="button" href="/outbox/held"' in page
