"""The shop's metrics and its dashboard: open in the demo, elsewhere by a secret, else closed."""

from __future__ import annotations

import pytest
from flask import Flask

pytestmark = pytest.mark.one_database("sqlite")

TOKEN = "a-long-random-token"


@pytest.mark.long
def test_the_metrics_are_open_in_the_demo_and_else_for_who_has_the_token(app: Flask) -> None:
    browser = app.test_client()
    assert "outbox_up 1" in browser.get("/metrics").text
    del app.config["DEMO_INBOX"]
    assert browser.get("/metrics").status_code == 404
    app.config["METRICS_TOKEN"] = TOKEN
    assert browser.get("/metrics").status_code == 401
    sent = {"Authorization": f"Bearer {TOKEN}"}
    assert "outbox_up 1" in browser.get("/metrics", headers=sent).text


@pytest.mark.long
def test_a_browser_is_asked_for_the_password_of_the_dashboard(app: Flask) -> None:
    browser = app.test_client()
    assert browser.get("/outbox/").status_code == 200
    del app.config["DEMO_INBOX"]
    assert browser.get("/outbox/").status_code == 404
    app.config["DASHBOARD_PASSWORD"] = "horse staple"
    asked = browser.get("/outbox/")
    assert (asked.status_code, asked.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    assert browser.get("/outbox/", auth=("staff", "horse staple")).status_code == 200


@pytest.mark.long
def test_a_page_of_an_error_keeps_the_errors_own_headers(app: Flask) -> None:
    refused = app.test_client().put("/")
    assert (refused.status_code, "Method Not Allowed" in refused.text) == (405, True)
    assert "GET" in refused.headers["Allow"]
