"""The shop's metrics: open in the demo, by a token elsewhere, and closed without one."""

from __future__ import annotations

import pytest
from flask import Flask

pytestmark = pytest.mark.one_database("sqlite")

TOKEN = "a long random token"


def test_the_metrics_are_open_in_the_demo_and_else_for_who_has_the_token(app: Flask) -> None:
    browser = app.test_client()
    assert "outbox_up 1" in browser.get("/metrics").text
    del app.config["DEMO_INBOX"]
    assert browser.get("/metrics").status_code == 404
    app.config["METRICS_TOKEN"] = TOKEN
    assert browser.get("/metrics").status_code == 401
    sent = {"Authorization": f"Bearer {TOKEN}"}
    assert "outbox_up 1" in browser.get("/metrics", headers=sent).text
