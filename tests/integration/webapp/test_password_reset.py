"""One address gets one reset in each time slot, whoever asks and however often."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from flask import Flask, request

from webapp import limits
from webapp.app import create_app
from webapp.extensions import outbox
from webapp.pages.password_reset import SLOT, in_slot

pytestmark = pytest.mark.databases("sqlite")

NOW = datetime(2026, 5, 4, 12, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def steady_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stay in one slot, however long the test takes."""
    monkeypatch.setattr("webapp.pages.password_reset.in_slot", lambda to, _: in_slot(to, NOW))


def ask(app: Flask, email: str) -> int:
    return app.test_client().post("/password-reset", data={"email": email}).status_code


def written(app: Flask) -> int:
    with app.app_context():
        return sum(outbox.counts(tag="password-reset").values())


@pytest.mark.long
def test_an_address_that_asks_again_gets_no_second_email(app: Flask) -> None:
    assert [ask(app, to) for to in ("ada@example.com", "ADA@example.com")] == [303, 303]
    assert written(app) == 1
    assert ask(app, "bob@example.com") == 303
    assert written(app) == 2


def test_the_next_slot_begins_anew() -> None:
    now = in_slot("ada@example.com", NOW)
    assert now == in_slot("ada@example.com", NOW + SLOT / 5)
    assert now != in_slot("ada@example.com", NOW + SLOT)
    assert now != in_slot("bob@example.com", NOW)


@pytest.mark.long
@pytest.mark.over_and_over
def test_one_client_cannot_ask_for_everybody(app: Flask) -> None:
    most = int(limits.RESETS_OF_A_CLIENT.split("/")[0])
    codes = [ask(app, f"{number}@example.com") for number in range(most + 1)]
    assert codes == [303] * most + [429]
    assert written(app) == most


@pytest.mark.long
def test_behind_a_proxy_clients_are_told_apart(database_url: str) -> None:
    app = create_app(
        {
            "SECRET_KEY": "for this test only",
            "SQLALCHEMY_DATABASE_URI": database_url,
            "PROXIES": 1,
        }
    )
    app.add_url_rule("/who", view_func=lambda: str(request.remote_addr))
    chain = {"X-Forwarded-For": "192.0.2.9, 192.0.2.2"}  # the proxy appends what it saw
    assert app.test_client().get("/who", headers=chain).text == "192.0.2.2"
