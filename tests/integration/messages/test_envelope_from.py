"""The envelope's own sender: where bounces go. And what else a message asks of the envelope."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

import flask_mail
import pytest

from outbox import OutboxMail
from outbox.domain.errors import ConfigurationError, InvalidMessage
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter
from tests.support.shop.steps.motion import server

pytestmark = pytest.mark.one_database("sqlite")

BOUNCES = "bounces@mail.shop.example"


def flask_message(**options: Any) -> flask_mail.Message:
    return flask_mail.Message(
        "Hello",
        sender="shop@shop.example",
        body="Hello.\n",
        **{"recipients": ["a@x.example"]} | options,
    )


def arrived(shop: Shop, catcher: Catcher) -> list[CaughtMail]:
    drain(shop.runtime)
    return list(catcher.emails)


def automatic() -> EmailMessage:
    made = message()
    made["Auto-Submitted"] = "auto-generated"
    return made


def test_bounces_go_where_the_envelope_says_and_nothing_else_changes(
    sending: Shop, catcher: Catcher
) -> None:
    sending.enqueue(envelope_from=BOUNCES)
    sending.enqueue()
    first, second = arrived(sending, catcher)
    assert (first.sender, second.sender) == (BOUNCES, "shop@shop.example")
    for mail in (first, second):
        assert b"From: shop@shop.example\r\n" in mail.content
        assert mail.message_id.endswith("@shop.example>")
    assert b"bounces" not in first.content


def test_newsletters_and_many_messages_have_it_too(sending: Shop, catcher: Catcher) -> None:
    with sending.session() as session:
        outbox = sending.outbox
        outbox.enqueue_many(newsletter(), addresses(3), session=session, envelope_from=BOUNCES)
        outbox.enqueue_many([message(), message()], session=session, envelope_from=BOUNCES)
        session.commit()
    assert [mail.sender for mail in arrived(sending, catcher)] == [BOUNCES] * 5


@pytest.mark.parametrize("many", [False, True])
def test_beside_a_sender_bounces_go_to_the_author_as_with_flask_mail(
    many: bool, sending: Shop, catcher: Catcher
) -> None:
    made = flask_message(extra_headers={"Sender": "desk@shop.example"})
    if many:
        made.recipients = []
    with sending.app.app_context(), sending.session() as session:
        if many:
            sending.outbox.enqueue_many(made, addresses(2), session=session)
        else:
            sending.outbox.enqueue(made, session=session)
        session.commit()
    assert {mail.sender for mail in arrived(sending, catcher)} == {"shop@shop.example"}


@pytest.mark.parametrize(
    ("made", "options"),
    [(message, {"auto_submitted": True}), (automatic, {})],
    ids=["marked", "marked by itself"],
)
def test_an_automatic_message_may_have_nobody_to_bounce_to(
    made: Any, options: dict[str, Any], sending: Shop, catcher: Catcher
) -> None:
    with sending.session() as session:
        sending.outbox.enqueue(made(), session=session, envelope_from="<>", **options)
        session.commit()
    [mail] = arrived(sending, catcher)
    assert mail.sender == "<>"


def not_automatic() -> EmailMessage:
    made = message()
    made["Auto-Submitted"] = "No (a person wrote it)"
    return made


@pytest.mark.parametrize("value", ["<>", "", "shop", "a@b@c", "a@x.example\r\nDATA", 5, ("a", "b")])
def test_what_is_no_path_for_bounces_is_refused_and_the_transaction_is_usable(
    value: Any, shop: Shop
) -> None:
    with shop.session() as session:
        shop.order(session)
        for made in (message(), not_automatic()):
            with pytest.raises(InvalidMessage, match="envelope_from"):
                shop.outbox.enqueue(made, session=session, envelope_from=value)
        with pytest.raises(InvalidMessage, match="envelope_from"):
            shop.outbox.enqueue_many(
                newsletter(), addresses(2), session=session, envelope_from=value
            )
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)


def test_a_path_with_letters_beyond_ascii_asks_for_smtputf8(
    sending: Shop, catcher: Catcher
) -> None:
    sending.enqueue(envelope_from="jürgen@shop.example")
    [mail] = arrived(sending, catcher)
    assert mail.sender == "jürgen@shop.example"
    assert "SMTPUTF8" in mail.mail_options


def test_the_setting_holds_for_every_message_that_names_no_other(
    shops: Shops, catcher: Catcher
) -> None:
    shop, db = shops.open_flask(MAIL_PORT=catcher.port, OUTBOX_ENVELOPE_FROM=BOUNCES)
    mail = OutboxMail(shop.app)
    with shop.app.app_context():
        mail.send(flask_message())
        with mail.connect() as connection:
            connection.send(flask_message(), envelope_from="own@shop.example")
        shop.outbox.enqueue(message(), envelope_from="other@shop.example")
        shop.outbox.enqueue_many(newsletter(), addresses(1), priority="normal")
        db.session.commit()
    senders = [mail.sender for mail in arrived(shop, catcher)]
    assert senders == [BOUNCES, "own@shop.example", "other@shop.example", BOUNCES]


@pytest.mark.parametrize("sender", ["a@x.example, b@x.example", "shop: a@x.example, b@x.example;"])
def test_the_drop_in_refuses_two_paths_and_the_transaction_is_usable(
    sender: str, shops: Shops
) -> None:
    shop, db = shops.open_flask()
    mail = OutboxMail(shop.app)
    with shop.app.app_context(), mail.connect() as connection:
        with pytest.raises(InvalidMessage, match="envelope_from: must be one address"):
            connection.send(flask_message(), envelope_from=sender)
        connection.send(flask_message())
        db.session.commit()
    assert shop.count(shop.tables.email) == 1


@pytest.mark.parametrize("value", ["<>", "shop", "jü@x.example", "a@x.example, b@x.example"])
def test_a_setting_that_is_no_address_is_refused(value: str, shops: Shops) -> None:
    with pytest.raises(ConfigurationError, match="OUTBOX_ENVELOPE_FROM"):
        shops.open(OUTBOX_ENVELOPE_FROM=value)


def test_a_key_knows_its_message_again_wherever_the_bounces_go(shop: Shop) -> None:
    first = shop.enqueue(key="order-1", envelope_from=BOUNCES)
    again = shop.enqueue(key="order-1", envelope_from="other@shop.example")
    assert (again.id, again.created) == (first.id, False)
    assert shop.email_row(first.id).sender == BOUNCES


def test_a_message_takes_the_route_of_its_own_sender(shops: Shops) -> None:
    servers = [server("a", 25), server("b", 26)]
    routes = [
        {"name": "mine", "sender_domain": "shop.example", "servers": ["a"]},
        {"name": "rest", "servers": ["b"]},
    ]
    shop = shops.open(OUTBOX_SERVERS=servers, OUTBOX_ROUTES=routes)
    email = shop.enqueue(envelope_from="bounces@elsewhere.example")
    assert shop.email_row(email.id).lane == "mine"


def test_a_newsletter_keeps_the_options_of_its_message(shops: Shops) -> None:
    with Catcher(dsn=True) as catcher:
        shop = shops.open(MAIL_PORT=catcher.port)
        content = flask_message(
            recipients=None, mail_options=["RET=HDRS"], rcpt_options=["NOTIFY=NEVER"]
        )
        with shop.session() as session:
            shop.outbox.enqueue_many(content, addresses(2), session=session)
            session.commit()
        for mail in arrived(shop, catcher):
            assert "RET=HDRS" in mail.mail_options
            assert mail.rcpt_options == ("NOTIFY=NEVER",)
        assert len(catcher.emails) == 2


def test_what_must_not_be_left_out_goes_over_a_server_that_offers_it(shops: Shops) -> None:
    offering = (*EXTENSIONS, "REQUIRETLS")
    with StatefulServer() as first, StatefulServer(extensions=offering) as second:
        servers = [server("a", first.port), server("b", second.port, order=2)]
        shop = shops.open(OUTBOX_SERVERS=servers)
        wish = flask_message(mail_options=["REQUIRETLS"])
        with shop.session() as session:
            email = shop.outbox.enqueue(wish, session=session)
            session.commit()
        drain(shop.runtime)
        assert (len(first.accepted), len(second.accepted)) == (0, 1)
        assert any(" REQUIRETLS" in line for line in second.dialogues[0].lines)
    assert shop.status(email.id) == "sent"


def test_what_must_not_be_left_out_waits_with_its_reason_where_no_server_offers_it(
    shops: Shops,
) -> None:
    with StatefulServer() as only:
        shop = shops.open(OUTBOX_SERVERS=[server("a", only.port)])
        wish = flask_message(mail_options=["BY=120;R"])
        with shop.session() as session:
            email = shop.outbox.enqueue(wish, session=session)
            session.commit()
        drain(shop.runtime)
        assert only.accepted == []
    [attempt] = shop.rows(shop.tables.attempt)
    assert (shop.status(email.id), attempt.verdict) == ("pending", "lacking")
    assert "BY" in attempt.reply
