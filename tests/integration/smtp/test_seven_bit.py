"""A server without 8BITMIME: what may be encoded is encoded and sent, and the rest waits."""

from __future__ import annotations

import email
from collections.abc import Iterator
from dataclasses import replace
from email import policy
from email.message import EmailMessage

import flask_mail
import pytest

from outbox import OutboxMail
from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.smtp.connection import Connection
from outbox.worker.drain import drain
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.scripted import GREET, ScriptedServer, expect, serve
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops

HEAD = b"From: shop@shop.example\r\nTo: a@x.example\r\nSubject: Order\r\nMIME-Version: 1.0\r\n"
TYPE = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
PARSED = HEAD + TYPE + "Grüße\r\n".encode()
SIGNED = b"DKIM-Signature: v=1; d=b.example; h=from; bh=x; b=y\r\n" + PARSED
WEAK = tuple(e for e in EXTENSIONS if e != "8BITMIME")


@pytest.fixture
def weak() -> Iterator[StatefulServer]:
    """A server that does not offer 8BITMIME."""
    with StatefulServer(extensions=WEAK) as server:
        yield server


def read(content: bytes) -> EmailMessage:
    assert content.isascii()
    found = email.message_from_bytes(content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def enqueue(shop: Shop, data: bytes) -> int:
    with shop.session() as session:
        row = shop.outbox.enqueue(email.message_from_bytes(data), session=session)
        session.commit()
    return row.id


@pytest.mark.parametrize("pipelining", [False, True])
def test_the_size_and_the_body_are_told_as_they_are_sent(pipelining: bool) -> None:
    offered = "250-x\n250-PIPELINING\n250 SIZE 9999" if pipelining else "250-x\n250 SIZE 9999"
    needy = replace(envelope(), eightbit=True, size=len(PARSED))
    with ScriptedServer([GREET, expect("EHLO", offered), serve]) as server:
        connection = Connection(server.settings())
        plain = envelope("b@example.org")
        results = [
            connection.send(plain, b"x\r\n", lease_held, needy),
            connection.send(needy, PARSED, lease_held, plain),
            connection.send(plain, b"x\r\n", lease_held),
        ]
        connection.close()
    assert [result.verdict for result in results] == [Verdict.SENT] * 3
    assert [result.converted for result in results] == [False, True, False]
    told = [line for line in server.dialogues[0].lines if line.startswith("MAIL")]
    body = server.bodies[1].removesuffix(b".\r\n")
    assert told[1] == f"MAIL FROM:<shop@example.org> SIZE={len(body)}"
    assert len(server.dialogues) == 1
    assert read(body).get_content() == "Grüße\r\n"


def test_a_server_that_offers_8bitmime_gets_the_content_as_it_came() -> None:
    needy = replace(envelope(), eightbit=True, size=len(PARSED))
    with ScriptedServer() as server:
        connection = Connection(server.settings())
        result = connection.send(needy, PARSED, lease_held)
        connection.close()
    assert (result.verdict, result.converted) == (Verdict.SENT, False)
    assert server.bodies == [PARSED + b".\r\n"]


def test_a_signed_content_is_judged_before_anything_is_sent() -> None:
    needy = replace(envelope(), eightbit=True, size=len(SIGNED))
    with ScriptedServer([GREET, expect("EHLO", "250 x"), serve]) as server:
        connection = Connection(server.settings())
        result = connection.send(needy, SIGNED, lease_held)
        assert connection.send(envelope(), b"x\r\n", lease_held).verdict is Verdict.SENT
        connection.close()
    assert (result.verdict, result.phase) == (Verdict.LACKING, Phase.MAIL)
    assert "8BITMIME" in result.reply.text
    assert server.verbs(0) == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]


def test_a_content_that_would_be_too_large_when_encoded_is_not_sent() -> None:
    data = HEAD + TYPE + "ü\r\n".encode() * 500
    with ScriptedServer([GREET, expect("EHLO", "250-x\n250 SIZE 2500"), serve]) as server:
        connection = Connection(server.settings())
        needy = replace(envelope(), eightbit=True, size=len(data))
        result = connection.send(needy, data, lease_held)
        connection.close()
    assert len(data) < 2500
    assert result.verdict is Verdict.LACKING
    assert "(SIZE)" in result.reply.text


@pytest.mark.long
@pytest.mark.one_database("postgresql")
@pytest.mark.databases("sqlite", "postgresql")
def test_a_parsed_message_arrives_encoded_and_a_signed_one_waits_with_an_alert(
    shops: Shops, weak: StatefulServer
) -> None:
    shop = shops.open(MAIL_PORT=weak.port)
    signed, plain = enqueue(shop, SIGNED), enqueue(shop, PARSED)
    drain(shop.runtime)
    assert (shop.status(signed), shop.status(plain)) == ("pending", "sent")
    (arrived,) = weak.accepted
    assert read(arrived.content).get_content() == "Grüße\r\n"
    assert shop.email_row(signed).attempts == 0
    # That another message could be encoded tells nothing of what the signed one needs.
    later = enqueue(shop, PARSED)
    drain(shop.runtime)
    assert (shop.status(signed), shop.status(later)) == ("pending", "sent")
    health = parsed(runner(shop)("health", "--json", "--max-age", "86400", code=1))
    assert ["8BITMIME" in alert["reason"] for alert in health["alerts"]] == [True]


@pytest.mark.long
@pytest.mark.one_database("postgresql")
@pytest.mark.databases("sqlite", "postgresql")
def test_a_signed_message_goes_over_the_next_server_as_it_came(
    shops: Shops, weak: StatefulServer
) -> None:
    with StatefulServer() as second:
        servers = [
            {"name": "weak", "server": "127.0.0.1", "port": weak.port, "order": 1},
            {"name": "second", "server": "127.0.0.1", "port": second.port, "order": 2},
        ]
        shop = shops.open(OUTBOX_SERVERS=servers)
        row = enqueue(shop, SIGNED)
        drain(shop.runtime)
        assert shop.status(row) == "sent"
        (arrived,) = second.accepted
    assert arrived.content.partition(b"\r\n\r\n")[2] == "Grüße\r\n".encode()
    assert arrived.content.startswith(SIGNED.partition(b"\r\n\r\n")[0])


@pytest.mark.long
@pytest.mark.one_database("postgresql")
@pytest.mark.databases("sqlite", "postgresql")
def test_orders_and_newsletters_of_flask_mail_need_no_8bitmime(
    shops: Shops, weak: StatefulServer
) -> None:
    shop, db = shops.open_flask(MAIL_PORT=weak.port)
    with shop.app.app_context():
        mail = OutboxMail(shop.app)
        mail.send_message(
            "Grüße", sender=("Jö", "a@b.example"), recipients=["c@d.example"], body="Grüße\n"
        )
        news = flask_mail.Message("News", sender="a@b.example", body="Grüße\n", html="<p>日本</p>")
        shop.outbox.enqueue_many(news, ["e@d.example", ("Ü", "f@d.example")])
        db.session.commit()
    drain(shop.runtime)
    assert shop.statuses() == ["sent"] * 3
    assert all(arrived.content.isascii() for arrived in weak.accepted)
