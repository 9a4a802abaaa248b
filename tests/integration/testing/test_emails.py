"""A test sees what was enqueued: committed, or by the current session; before and after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import flask_mail
import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session

from outbox import ConfigurationError, Outbox, Priority, Status
from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, Shops, message, newsletter

pytestmark = pytest.mark.one_database("sqlite")

DAY = timedelta(days=1)


@pytest.mark.each_database
def test_an_email_is_seen_before_the_commit_and_not_after_a_rollback(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    tester = OutboxTester(shop.app)
    with shop.app.app_context():
        email = shop.outbox.enqueue(message("ada@x.example"), key="order-1")
        assert tester.assert_enqueued(to="ada@x.example").id == email.id
        db.session.rollback()
        tester.assert_nothing_enqueued()
        email = shop.outbox.enqueue(message("ada@x.example"), key="order-1")
        db.session.commit()
        assert [one.id for one in tester.emails()] == [email.id]
    assert tester.assert_enqueued(key="order-1").id == email.id  # there is no session


@pytest.mark.each_database
def test_what_another_session_committed_meanwhile_is_seen_too(
    shop: Shop, tester: OutboxTester
) -> None:
    with shop.session() as session:
        session.execute(sa.select(shop.orders)).all()  # under REPEATABLE READ it sees no more
        committed = shop.enqueue("a@x.example")
        own = shop.outbox.enqueue(message("b@x.example"), session=session)
        found = tester.emails(session=session)
        assert [(one.id, one.to) for one in found] == [
            (committed.id, ("a@x.example",)),
            (own.id, ("b@x.example",)),
        ]
        assert [one.id for one in tester.emails()] == [committed.id]
        shop.outbox.cancel(id=own.id, session=session)
        assert tester.assert_enqueued(to="b@x.example", session=session).status == "cancelled"


@pytest.mark.each_database
def test_an_email_in_a_transaction_that_the_test_takes_back_is_seen(shop: Shop) -> None:
    tester = OutboxTester(shop.app)
    with shop.engine.connect() as connection, connection.begin() as outer:
        if connection.dialect.name == "sqlite":  # its driver would begin at the first write
            connection.exec_driver_sql("BEGIN")
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            shop.outbox.enqueue(message(), session=session)
            session.commit()
            assert not session.in_transaction()
            tester.assert_enqueued(session=session)
        outer.rollback()
        tester.assert_nothing_enqueued()


def test_to_look_begins_no_transaction_and_makes_no_session(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    tester = OutboxTester(shop.app)
    with shop.app.app_context():
        tester.assert_nothing_enqueued()
        assert not db.session.registry.has()
        assert not db.session().in_transaction()
        tester.assert_nothing_enqueued()
        assert not db.session().in_transaction()


def test_only_emails_of_this_test_are_seen(shop: Shop) -> None:
    shop.enqueue("before@x.example")
    with OutboxTester(shop.app) as tester:
        tester.assert_nothing_enqueued()
        shop.enqueue("now@x.example")
        assert tester.assert_enqueued().to == ("now@x.example",)


def test_an_email_has_all_that_was_enqueued(shop: Shop, tester: OutboxTester) -> None:
    mail = flask_mail.Message(
        "Ihre Bestellung für Käse",
        sender=("Käse & Co", "shop@shop.example"),
        recipients=[("Doe, Ada", "ada@x.example")],
        cc=["cc@x.example"],
        bcc=["bcc@x.example"],
        body="Danke für 3 €!\nBis bald",
        html="<p>Danke für 3\u202f€!</p>",
        extra_headers={"X-Order": "7"},
        reply_to="help@shop.example",
    )
    mail.attach("Rechnung für Ada.pdf", "application/pdf", b"%PDF")
    send_at = datetime(2040, 1, 1, tzinfo=UTC)
    with shop.session() as session:
        shop.outbox.enqueue(
            mail,
            session=session,
            key="order-7",
            tag="order",
            priority=Priority.URGENT,
            send_at=send_at,
            expires_at=send_at + DAY,
            envelope_from="bounces@shop.example",
        )
        session.commit()
    email = tester.assert_enqueued()
    assert (email.key, email.tag, email.priority) == ("order-7", "order", Priority.URGENT)
    assert (email.send_at, email.due_at, email.expires_at) == (send_at, send_at, send_at + DAY)
    assert (email.status, email.attempts) == (Status.PENDING, 0)
    assert (email.to, email.cc, email.bcc) == (
        ("ada@x.example",), ("cc@x.example",), ("bcc@x.example",)
    )  # fmt: skip
    assert set(email.recipients) == {"ada@x.example", "cc@x.example", "bcc@x.example"}
    assert email.envelope_from == "bounces@shop.example"
    assert email.subject == "Ihre Bestellung für Käse"
    assert "Käse & Co" in email.sender
    assert email.text.startswith("Danke für 3 €!\nBis bald")
    assert "<p>Danke für 3\u202f€!</p>" in email.html
    assert email.attachments == ("Rechnung für Ada.pdf",)
    assert (email.headers["X-Order"], email.headers["Reply-To"]) == ("7", "help@shop.example")
    assert email.message["Bcc"] is None
    assert "octets" not in repr(email)


def test_each_reader_of_a_newsletter_has_their_own_text(shop: Shop, tester: OutboxTester) -> None:
    readers = ["ada@x.example", "bob@x.example"]
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter("Hello {{ name }}, new ink!"),
            readers,
            session=session,
            fields=lambda address: {"name": address[:3]},
        )
        session.commit()
    assert [one.to for one in tester.emails()] == [(reader,) for reader in readers]
    tester.assert_enqueued(count=2, text_contains="new ink")
    assert tester.assert_enqueued(text_contains="Hello bob,").recipients == ("bob@x.example",)


@pytest.mark.long
def test_a_database_in_memory_and_tables_that_come_later() -> None:
    app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
    app.config.update(TESTING=True, SQLALCHEMY_DATABASE_URI="sqlite://")
    db.init_app(app)
    outbox.init_app(app, db=db)
    with app.app_context(), OutboxTester(app) as tester:
        db.create_all()
        email = outbox.enqueue(message("ada@x.example"))
        assert tester.assert_enqueued(to="ada@x.example").id == email.id
        with pytest.raises(ConfigurationError, match="commit"):
            tester.drain()
        db.session.commit()
        assert [one.recipients for one in tester.drain()] == [("ada@x.example",)]
        assert tester.assert_enqueued().status == "sent"
        db.session.remove()
        db.engine.dispose()


def test_an_app_without_an_outbox_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the app has no outbox"):
        OutboxTester(Flask("shop"))


def test_a_function_that_needs_a_request_is_no_hindrance(shop: Shop) -> None:
    def of_request() -> Session:
        raise RuntimeError("Working outside of request context")

    outbox = Outbox()
    app = Flask("other")
    outbox.init_app(app, session=of_request, metadata=sa.MetaData(), engine=shop.engine)
    with OutboxTester(app) as tester:
        email = shop.enqueue()
        assert tester.assert_enqueued().id == email.id
