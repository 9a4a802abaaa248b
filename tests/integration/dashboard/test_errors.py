"""A page that fails: what its visitor sees, and what the log has of it."""

from __future__ import annotations

import pytest

from .desk import Desk

pytestmark = pytest.mark.one_database("sqlite")

QUOTES = """
CREATE TRIGGER quotes BEFORE INSERT ON outbox_audit BEGIN
    SELECT RAISE(ABORT, 'Key (address)=({}) is refused');
END
"""
"""Has SQLite quote what it refuses, as other databases do."""


def test_the_line_of_an_error_has_no_address(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with desk.shop.engine.begin() as connection:
        desk.shop.tables.suppression.drop(connection)
    desk.get("/suppressed", 500, address="victim@secret.example")
    assert "outbox_suppression" in caplog.text
    assert "victim" not in caplog.text


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
