"""A form of an act in parts that is sent twice: the page at the end tells what both have done."""

from __future__ import annotations

import pytest

from outbox.flask_ext.management import corrections
from outbox.store.queries import id_steps
from tests.integration.dashboard.acts.test_broken_off import NEWS, go_on, held
from tests.integration.dashboard.acts.test_stale_pages import form_at, text_of
from tests.integration.dashboard.desk import Desk
from tests.integration.dashboard.scene import send

pytestmark = pytest.mark.each_database

STOP = "/newsletters/stop"
RELEASE = "/held/release"
ALL = {"everything": "on"}


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request changes four messages, in transactions of two."""
    monkeypatch.setattr(id_steps, "LOOK", 2)
    monkeypatch.setattr(corrections, "MOST_CHANGED", 4)


def click(desk: Desk, action: str, fields: dict[str, str]) -> str:
    """Send a form; return the page that goes on."""
    answer = desk.client.post(f"/outbox{action}", data=fields)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_two_clicks_on_stop_tell_what_both_have_stopped(desk: Desk) -> None:
    send(desk.shop, "news", 11)
    form = form_at(desk.get(NEWS).text, STOP)
    click(desk, STOP, form)
    page = click(desk, STOP, form)
    assert "8 messages are cancelled so far." in page
    assert "11 messages are cancelled." in text_of(go_on(desk, STOP, page))


@pytest.mark.long
def test_the_back_button_and_go_on_once_more_tell_all(desk: Desk) -> None:
    send(desk.shop, "news", 11)
    page = click(desk, STOP, form_at(desk.get(NEWS).text, STOP))
    assert "11 messages are cancelled." in text_of(go_on(desk, STOP, page))
    assert "11 messages are cancelled." in text_of(go_on(desk, STOP, page))


@pytest.mark.long
def test_two_clicks_on_release_tell_what_both_have_released(desk: Desk) -> None:
    held(desk)
    form = form_at(desk.get("/held").text, RELEASE) | ALL
    form.pop("tag", None)
    click(desk, RELEASE, form)
    assert "9 messages are released." in text_of(go_on(desk, RELEASE, click(desk, RELEASE, form)))


@pytest.mark.long
def test_only_what_the_same_person_did_of_the_same_act_since_the_page_counts(desk: Desk) -> None:
    send(desk.shop, "news", 3)
    desk.post(STOP, NEWS, tag="news")
    for tag in ("news", "other"):
        send(desk.shop, tag, 2)
    form = form_at(desk.get(NEWS).text, STOP)
    desk.post(STOP, NEWS, tag="other")
    desk.who = "bob"
    desk.post(STOP, NEWS, tag="news")
    send(desk.shop, "news", 1)
    desk.who = "ada"
    form["csrf_token"] = desk.token("/pauses")
    link = desk.client.post(f"/outbox{STOP}", data=form).headers["Location"]
    assert text_of(desk.client.get(link).text) == "1 message is cancelled."


@pytest.mark.databases("postgresql")
def test_what_another_click_holds_and_cancels_is_not_told_as_left_behind(desk: Desk) -> None:
    send(desk.shop, "news", 3)
    form = form_at(desk.get(NEWS).text, STOP)
    with desk.shop.session() as session:
        assert desk.shop.outbox.cancel(id=2, session=session) == 1
        link = desk.client.post(f"/outbox{STOP}", data=form).headers["Location"]
        told = text_of(desk.client.get(link).text)
        assert "At least 2 messages are cancelled." in told
        assert "It may be another click of yours" in told
        session.commit()
    told = text_of(desk.client.get(link).text)
    assert "No message of it waits any more." in told
    assert "stop the rest again" not in told
