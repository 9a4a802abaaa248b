"""An order is its customer's: the page, the invoice and the email. Nobody orders without end."""

from __future__ import annotations

import uuid
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from outbox.store.queries.whole_emails import Mark, later_than
from webapp import limits
from webapp.extensions import db, outbox
from webapp.pages import shop

pytestmark = pytest.mark.databases("sqlite")


def order(client: FlaskClient, **changes: str) -> Any:
    form = {
        "checkout": str(uuid.uuid4()), "product": "ink", "quantity": "2", "name": "Ada",
        "email": "ada@example.com", "card": "works",
    }  # fmt: skip
    return client.post("/orders", data=form | changes)


def emails(app: Flask) -> list[Any]:
    """Return the messages of all emails."""
    with app.app_context():
        database = outbox._runtime.database
        found = database.read(lambda connection: later_than(connection, database, Mark()))
    return [message_from_bytes(one.octets, policy=default) for one in found]


def test_an_order_has_an_email_with_its_invoice_and_a_link_to_it(app: Flask) -> None:
    client = app.test_client()
    page = client.get(order(client, name="Лев Толстой").location).text
    [email] = emails(app)
    [attached] = email.iter_attachments()
    assert attached.get_filename() == "Invoice F-01001.pdf"
    assert attached.get_content_type() == "application/pdf"
    shown = client.get("/orders/1/invoice")
    assert (shown.mimetype, shown.data) == ("application/pdf", attached.get_content())
    message_id = email["Message-ID"].strip().replace("<", "%3C").replace(">", "%3E")
    assert message_id.replace("@", "%40") in page.replace("@", "%40")
    assert "Read the email" in page
    assert 'href="http://127.0.0.1:5555/"' in page


def test_an_order_is_seen_by_nobody_else(app: Flask) -> None:
    mine, other = app.test_client(), app.test_client()
    order(mine)
    order(other, name="Bob")
    assert "Bob" not in mine.get("/orders").text
    assert "Ada" in mine.get("/orders").text
    for path in ("/orders/1", "/orders/1/email", "/orders/1/invoice"):
        assert mine.get(path).status_code == 200
        assert other.get(path).status_code == 404
    assert app.test_client().get("/orders").status_code == 200


@pytest.mark.long
def test_a_browser_remembers_its_newest_orders(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pages.shop.LISTED", 2)
    client = app.test_client()
    for _ in range(3):
        order(client)
    listed = client.get("/orders").text
    assert [f"F-0100{number}" in listed for number in (1, 2, 3)] == [False, True, True]


NO_COMMIT = (
    "CREATE TABLE debt (id INTEGER REFERENCES shop_product DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TRIGGER no_commit AFTER INSERT ON shop_order BEGIN INSERT INTO debt VALUES (-1); END",
)
"""With these an order is written, and its commit fails, because only a commit looks at the debt."""


def run(app: Flask, *statements: str) -> None:
    with app.app_context():
        for statement in statements:
            db.session.execute(text(statement))
        db.session.commit()


@pytest.mark.long
def test_an_order_whose_commit_failed_leaves_nothing_and_the_next_one_succeeds(app: Flask) -> None:
    run(app, *NO_COMMIT)
    assert order(app.test_client()).status_code == 500
    assert emails(app) == []
    run(app, "DROP TRIGGER no_commit")
    assert order(app.test_client()).status_code == 303
    assert len(emails(app)) == 1


def test_an_order_whose_commit_failed_is_paid_once_when_the_form_is_sent_again(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: dict[str, int] = {}
    monkeypatch.setattr(shop, "charge", lambda _card, cents, *, key: paid.update({key: cents}))
    run(app, *NO_COMMIT)
    client, checkout = app.test_client(), str(uuid.uuid4())
    assert order(client, checkout=checkout).status_code == 500
    assert len(paid) == 1, "the bank was not asked"
    run(app, "DROP TRIGGER no_commit")
    assert order(client, checkout=checkout).status_code == 303
    assert paid == {checkout: 2 * 1280}


@pytest.mark.long
@pytest.mark.over_and_over
def test_one_address_gets_no_flood_of_confirmations(app: Flask) -> None:
    most = int(limits.ORDERS_TO_AN_ADDRESS.split("/")[0])
    codes = [order(app.test_client()).status_code for _ in range(most + 1)]
    assert codes == [303] * most + [429]
    refused = order(app.test_client(), email="ADA@example.com ")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert "Too Many Requests" in refused.text
    assert order(app.test_client(), email="bob@example.com").status_code == 303
    assert len(emails(app)) == most + 1


@pytest.mark.long
@pytest.mark.over_and_over
def test_one_client_cannot_order_without_end(app: Flask) -> None:
    most = int(limits.ORDERS_OF_A_CLIENT.split("/")[0])
    client = app.test_client()
    codes = [
        order(client, email=f"{i}@example.com", card="declined").status_code
        for i in range(most + 1)
    ]
    assert codes == [402] * most + [429]
    elsewhere = {"REMOTE_ADDR": "192.0.2.7"}
    assert client.get("/", environ_overrides=elsewhere).status_code == 200


@pytest.mark.parametrize("path", ["/orders", "/password-reset"])
def test_only_an_address_of_the_customers_own_is_called_wrong(app: Flask, path: str) -> None:
    client = app.test_client()

    def answer(email: str) -> tuple[int, bool]:
        form = {
            "checkout": str(uuid.uuid4()), "product": "ink", "quantity": "2", "name": "Ada",
            "email": email, "card": "works",
        }  # fmt: skip
        found = client.post(path, data=form)
        return found.status_code, "cannot write to that address" in found.text

    assert answer("two..dots@example.com") == (400, True)
    app.config["MAIL_DEFAULT_SENDER"] = ("Foolscap", "no address")
    assert answer("ada@example.com") == (500, False)
