"""`drain` sends by the worker's own code to a scripted server, in the outbox's own time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import flask_mail
import flask_mailman
import pytest
from flask_mail import email_dispatched

from outbox import ConfigurationError, OutboxMail, Status, email_failed
from outbox.testing import OutboxTester
from outbox.worker.drain import drain
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.databases("sqlite")

HOLD = {"on_unknown": "hold"}


@pytest.mark.each_database
def test_it_sends_under_testing_and_nothing_else_does(shop: Shop, tester: OutboxTester) -> None:
    ids = [shop.enqueue(f"{name}@x.example").id for name in "ab"]
    assert drain(shop.runtime) == 0
    taken = tester.drain()
    assert [one.recipients for one in taken] == [("a@x.example",), ("b@x.example",)]
    assert [(one.id, one.status, one.attempts) for one in tester.emails()] == [
        (number, Status.SENT, 1) for number in ids
    ]
    assert tester.drain() == ()
    assert tester.deliveries == taken


@pytest.mark.parametrize(
    ("step", "code", "status", "attempts"),
    [
        ("MAIL", 553, "failed", 1),
        ("RCPT", 550, "failed", 1),
        ("rcpt", 450, "pending", 1),
        ("DATA", 554, "failed", 1),
        ("DATA", 451, "pending", 1),
        ("DOT", 554, "failed", 1),
        ("DOT", 452, "pending", 1),
    ],
)
def test_a_refusal_is_judged_as_that_of_a_real_server(
    shop: Shop, tester: OutboxTester, step: str, code: int, status: str, attempts: int
) -> None:
    email = shop.enqueue()
    tester.replies.at(step, code, "no")
    assert tester.drain() == ()
    found = tester.assert_enqueued()
    assert (found.status, found.attempts) == (status, attempts)
    details = shop.outbox.get(email.id)
    assert details is not None
    assert [(one.code, one.phase, one.server) for one in details.attempt_list] == [
        (code, step.lower(), "127.0.0.1:1")
    ]


def test_a_reply_is_for_one_recipient(shop: Shop, tester: OutboxTester) -> None:
    email = shop.enqueue("a@x.example", "B@x.example")
    shop.enqueue("c@x.example")
    tester.replies.at("RCPT", 550, "5.1.1 no such user", to="b@X.example")
    tester.replies.at("DOT", 554, "5.7.1 spam", to="c@x.example")
    (taken,) = tester.drain()
    assert taken.recipients == ("a@x.example",)
    assert taken.to == ("a@x.example", "B@x.example")
    assert shop.recipients(email.id) == {"a@x.example": "sent", "B@x.example": "failed"}
    assert shop.statuses() == ["sent", "failed"]


@pytest.mark.long
def test_an_email_that_was_put_off_comes_when_it_is_due(shop: Shop, tester: OutboxTester) -> None:
    shop.enqueue()
    tester.replies.at("RCPT", 451, "4.7.1 greylisted", times=2)
    assert tester.drain() == ()
    for _ in range(2):
        assert tester.drain() == ()
        due_at = tester.assert_enqueued(subject="Order 1").due_at
        assert due_at is not None
        tester.travel_to(due_at)
        taken = tester.drain()
    assert [one.subject for one in taken] == ["Order 1"]
    assert tester.assert_enqueued().attempts == 3


def test_a_lost_reply_to_the_dot_is_a_doubt(shop: Shop, tester: OutboxTester) -> None:
    held, again = shop.enqueue("a@x.example", **HOLD), shop.enqueue("b@x.example")
    tester.replies.hang_up_at("DOT", to="a@x.example")
    tester.replies.hang_up_at("DOT", to="b@x.example", times=1)
    assert tester.drain() == ()
    assert [shop.status(one.id) for one in (held, again)] == ["unknown", "pending"]
    tester.travel(days=1)
    assert [one.recipients for one in tester.drain()] == [("b@x.example",)]


@pytest.mark.long
def test_a_server_that_closes_charges_nobody(shop: Shop, tester: OutboxTester) -> None:
    shop.enqueue("a@x.example")
    shop.enqueue("b@y.example")
    tester.replies.at("MAIL", 421, "4.3.2 closing")
    assert tester.drain() == ()
    assert {(one.status, one.attempts) for one in tester.emails()} == {("pending", 0)}
    assert [one.server for one in shop.outbox.stats().servers if one.next_probe] == ["127.0.0.1:1"]
    tester.replies.clear()
    tester.travel(minutes=1)
    assert {one.recipients for one in tester.drain()} == {("a@x.example",), ("b@y.example",)}


def test_the_time_of_an_email_comes_and_runs_out(shop: Shop, tester: OutboxTester) -> None:
    soon = tester.now() + timedelta(hours=1)
    shop.enqueue("a@x.example", send_at=soon)
    shop.enqueue("b@x.example", send_at=soon, expires_at=soon + timedelta(minutes=1))
    tester.travel(minutes=50)
    assert tester.drain() == ()
    tester.travel(seconds=30, minutes=12)
    assert [one.recipients for one in tester.drain()] == [("a@x.example",)]
    assert shop.statuses() == ["sent", "expired"]
    with pytest.raises(ValueError, match="forward only"):
        tester.travel(seconds=-1)
    with pytest.raises(ValueError, match="forward only"):
        tester.travel_to(soon)


def test_servers_keep_their_names_and_need_neither_tls_nor_a_password(shops: Shops) -> None:
    servers = [
        {"name": "ses", "server": "smtp.ses.invalid", "use_ssl": True, "connections": 1},
        {"name": "own", "server": "mx.invalid", "use_tls": True, "username": "u", "password": "p"},
    ]
    routes = [{"name": "bulk", "tag": "news-*", "servers": ["ses"]}, _route("own")]
    shop = shops.open(TESTING=True, OUTBOX_SERVERS=servers, OUTBOX_ROUTES=routes)
    with OutboxTester(shop.app) as tester:
        news, order = shop.enqueue(tag="news-1"), shop.enqueue()
        assert len(tester.drain()) == 2
    used = {row.email_id: row.server for row in shop.rows(shop.tables.attempt)}
    assert used == {news.id: "ses", order.id: "own"}


def _route(server: str) -> dict[str, Any]:
    return {"name": "rest", "servers": [server]}


@pytest.mark.each_database
def test_emails_that_are_not_committed_are_told_of(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True)
    with shop.app.app_context(), OutboxTester(shop.app) as tester:
        shop.outbox.enqueue(message())
        with pytest.raises(ConfigurationError, match="commit"):
            tester.drain()
        db.session.commit()
        assert len(tester.drain()) == 1


def test_the_receivers_of_signals_are_called(shop: Shop, tester: OutboxTester) -> None:
    heard: list[tuple[int, ...]] = []

    def hear(_app: object, ids: tuple[int, ...]) -> None:
        heard.append(ids)

    email = shop.enqueue()
    tester.replies.at("RCPT", 550)
    with email_failed.connected_to(hear, sender=shop.app):
        tester.drain()
    assert heard == [(email.id,)]


def test_a_delivery_has_the_octets_and_the_envelope(shop: Shop, tester: OutboxTester) -> None:
    with shop.session() as session:
        text = "A line.\n.A line with a dot\n..\n.\nGrüße"
        mail = message("ada@x.example", text=text)
        shop.outbox.enqueue(mail, session=session, envelope_from="<>", auto_submitted=True)
        session.commit()
    (taken,) = tester.drain()
    assert taken.text.rstrip() == text
    assert (taken.envelope_from, taken.recipients) == ("<>", ("ada@x.example",))
    assert taken.octets == tester.assert_enqueued().octets


def test_the_drop_in_enqueues_and_is_recorded(shops: Shops) -> None:
    shop, db = shops.open_flask(TESTING=True, MAIL_DEFAULT_SENDER="shop@shop.example")
    mail = OutboxMail(shop.app)
    with shop.app.app_context():
        with OutboxTester(shop.app) as tester, mail.record_messages() as recorded:
            mail.send_message("Hello", recipients=["ada@x.example"], body="Thanks.")
            sent = tester.assert_enqueued(to="ada@x.example", text_contains="Thanks.")
            db.session.commit()
            assert [one.subject for one in tester.drain()] == ["Hello"]
        assert [one.subject for one in recorded] == [sent.subject]
        mail.send_message("Later", recipients=["ada@x.example"], body="Thanks.")
        db.session.commit()
    assert shop.statuses() == ["sent"]  # as before: under TESTING it writes nothing


def test_what_another_extension_sends_is_seen(shops: Shops) -> None:
    shop, _ = shops.open_flask(TESTING=True)
    recorded: list[str] = []

    def record(_app: object, message: flask_mail.Message) -> None:
        recorded.append(message.subject)

    with shop.app.app_context(), OutboxTester(shop.app) as tester:
        reset = flask_mail.Message("Reset", ["ada@x.example"], "Go on.", sender="shop@shop.example")
        with email_dispatched.connected_to(record):
            shop.app.extensions["mail"].send(reset)
        assert [one.subject for one in tester.drain()] == ["Reset"]  # committed by itself
    assert recorded == ["Reset"]


def test_what_flask_mailman_sends_is_seen(shops: Shops) -> None:
    config = {"MAIL_BACKEND": "outbox.mailman", "MAIL_DEFAULT_SENDER": "shop@shop.example"}
    shop, _ = shops.open_flask(TESTING=True, **config)
    mailman = flask_mailman.Mail(shop.app)
    with shop.app.app_context(), OutboxTester(shop.app) as tester:
        mailman.send_mail("Hello", "Thanks.", None, ["ada@x.example"])
        assert [one.subject for one in tester.drain()] == ["Hello"]  # committed by itself


@pytest.mark.parametrize("suppressed", [True, False, None])
def test_afterwards_all_is_as_before(shops: Shops, suppressed: bool | None) -> None:
    config = {} if suppressed is None else {"MAIL_SUPPRESS_SEND": suppressed}
    shop = shops.open(TESTING=suppressed is not None, **config)
    entry = shop.app.extensions["mail"]
    with OutboxTester(shop.app) as tester:
        tester.travel(hours=1)
        assert not entry.suppress
        assert shop.runtime.sending_is_off() is bool(suppressed)
    assert shop.database.offset == 0.0
    assert entry.suppress is shop.runtime.sending_is_off() is bool(suppressed)
    shop.app.config["MAIL_SUPPRESS_SEND"] = not suppressed
    assert entry.suppress is shop.runtime.sending_is_off() is not suppressed
