"""The recipe for plain SQLAlchemy in install.md: a request that gives up leaves nothing behind."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, abort

from tests.docs.blocks import blocks_of
from tests.support.shop.shop import message

PAGE = Path(__file__).parents[2] / "docs" / "install.md"
HOOK = "@app.teardown_appcontext"

pytestmark = pytest.mark.one_database("sqlite")


def recipe(folder: Path, monkeypatch: pytest.MonkeyPatch, *, hook: bool = True) -> dict[str, Any]:
    """Return the names of the page's app, with a view that gives up and one that commits."""
    monkeypatch.chdir(folder)
    [block] = [block for block in blocks_of(PAGE.read_text()) if block.file == "plain.py"]
    code = block.text if hook else block.text.replace(HOOK, "")
    names: dict[str, Any] = {"__name__": "plain"}
    exec(compile(code, "plain.py", "exec"), names)
    app: Flask = names["app"]

    @app.post("/aborted")
    def aborted() -> str:
        names["outbox"].enqueue(message())
        abort(409)

    @app.post("/next")
    def following() -> str:
        names["session"].commit()
        return ""

    return names


def visit(names: dict[str, Any]) -> int:
    """Place an order that is given up, and then another visitor's; return how many emails are."""
    client = names["app"].test_client()
    assert client.post("/aborted").status_code == 409
    assert client.post("/next").status_code == 200
    emails = sum(names["outbox"].counts().values())
    names["session"].remove()
    names["app"].extensions["outbox"].runtime.disconnect()
    names["engine"].dispose()
    return int(emails)


def events(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record.__dict__["outbox"] for record in caplog.records if record.name == "outbox"]


def test_the_email_of_an_aborted_request_does_not_leave_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert visit(recipe(tmp_path, monkeypatch)) == 0
    assert [event["event"] for event in events(caplog)] == ["emails_discarded"]


def test_without_its_teardown_function_the_email_leaves_and_a_warning_tells_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert visit(recipe(tmp_path, monkeypatch, hook=False)) == 1
    assert events(caplog) == [{"event": "emails_left_open", "emails": 1}]


def test_a_context_within_another_is_not_the_sessions_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = recipe(tmp_path, monkeypatch, hook=False)
    with names["app"].app_context():
        names["outbox"].enqueue(message())
        with names["app"].app_context():
            pass
        names["session"].commit()
    assert events(caplog) == []
    names["session"].remove()
    names["app"].extensions["outbox"].runtime.disconnect()
    names["engine"].dispose()
