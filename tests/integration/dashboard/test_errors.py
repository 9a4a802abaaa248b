"""A page that fails: what its visitor sees, and what the log has of it."""

from __future__ import annotations

import pytest

from outbox.store.queries import id_steps
from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import Desk

pytestmark = pytest.mark.one_database("sqlite")

STOP = "/newsletters/stop"
QUOTES = """
CREATE TRIGGER quotes BEFORE INSERT ON outbox_audit BEGIN
    SELECT RAISE(ABORT, 'Key (address)=({}) is refused');
END
"""
"""Has SQLite quote what it refuses, as other databases do."""
FULL = """
CREATE TRIGGER full BEFORE INSERT ON outbox_audit WHEN (SELECT count(*) FROM outbox_audit) > 0 BEGIN
    SELECT RAISE(ABORT, 'database or disk is full');
END
"""
"""Has the second transaction of an act fail."""


def test_the_line_of_an_error_has_no_address(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with desk.shop.engine.begin() as connection:
        desk.shop.tables.suppression.drop(connection)
    desk.get("/suppressed", 500, address="victim@secret.example")
    assert "outbox_suppression" in caplog.text
    assert "victim" not in caplog.text


@pytest.mark.databases("sqlite")
def test_nor_has_one_whose_text_the_database_wrote(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    victim = "victim@secret.example"
    with desk.shop.engine.begin() as connection:
        connection.exec_driver_sql(QUOTES.format(victim))
    desk.post("/suppressed/add", "/suppressed", 500, new=victim)
    assert "a page of the dashboard failed" in caplog.text
    assert "Traceback" in caplog.text
    assert "IntegrityError" in caplog.text
    assert "victim" not in caplog.text


def test_an_error_has_a_page_and_a_line_in_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("outbox.dashboard.controls.audit.PAGE", None)
        page = desk.get("/audit", 500).text
    assert "This page failed" in page
    assert "a page of the dashboard failed" in caplog.text
    with desk.shop.engine.begin() as connection:
        desk.shop.tables.audit.drop(connection)
    page = desk.get("/audit", 500).text
    assert "run your migrations" in page
    assert "emails go out as before" not in page


@pytest.mark.databases("sqlite")
def test_an_act_that_failed_halfway_says_that_its_beginning_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.send(desk.shop, "news", 6)
    monkeypatch.setattr(id_steps, "LOOK", 2)
    with desk.shop.engine.begin() as connection:
        connection.exec_driver_sql(FULL)
    page = desk.post("/newsletters/stop", "/newsletters/tag?tag=news", 500, tag="news").text
    assert sorted(set(desk.shop.statuses())) == ["cancelled", "pending"]
    assert "What was done before that stays done" in page
    assert "changes nothing" not in page
    assert "as before" not in page


def test_a_page_that_failed_promises_nothing_of_what_is_sent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("outbox.dashboard.controls.audit.PAGE", None)
        page = desk.get("/audit", 500).text
    assert "It changes nothing." in page
    assert "emails go out" not in page


def test_no_link_says_that_a_login_has_taken_the_place_of_an_act(desk: Desk) -> None:
    """Only whom the address of an act has just led there is told so, on that page."""
    told = "You had to log in first"
    for page, name, act in (
        ("/pauses", "not_done", "/pauses/pause"), ("/newsletters", "rest_not_done", STOP),
    ):  # fmt: skip
        assert told not in desk.get(f"{page}?{name}=1").text
        led = desk.client.get(f"/outbox{act}")
        assert led.headers["Location"] == f"/outbox{page}?{name}=1"
        cookie = led.headers["Set-Cookie"]
        assert "SameSite=Strict" in cookie
        assert "HttpOnly" in cookie
        assert told in desk.client.get(led.headers["Location"]).text
        assert told not in desk.get(page).text
        assert told not in desk.get(f"/held?{name}=1").text
        desk.who = "bob"
        assert told not in desk.get(f"{page}?{name}=1").text
        desk.who = "ada"
