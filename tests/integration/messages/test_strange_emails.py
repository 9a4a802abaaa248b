"""Big and strange emails, all the way: enqueue, table, relay, a real SMTP server."""

from __future__ import annotations

import email
import json
import random
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, Message
from email.mime.text import MIMEText
from typing import Any

import pytest
import sqlalchemy as sa

from outbox import InvalidMessage, OutboxMail, Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.one_database("postgresql")

MEGABYTE = 1024 * 1024


def sent(shop: Shop, catcher: Catcher, mail: Message[Any, Any]) -> CaughtMail:
    """Send one email and return it as it arrived."""
    with shop.session() as session:
        row = shop.outbox.enqueue(mail, session=session)
        session.commit()
    drain(shop.runtime)
    assert shop.status(row.id) is Status.SENT
    assert len(catcher.emails) == 1
    return catcher.emails[0]


def read(mail: CaughtMail) -> EmailMessage:
    found = email.message_from_bytes(mail.content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def legacy(text: bytes, **headers: str) -> Message[Any, Any]:
    """Return a message with a text of octets that nothing has looked at."""
    head = {"From": "shop@shop.example", "To": "a@x.example", "Subject": "Order 1"} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    found = email.message_from_bytes(lines.encode() + b"\r\n")
    found.set_payload(text.decode("ascii", "surrogateescape"))
    return found


@pytest.mark.over_and_over
@pytest.mark.long
def test_an_attachment_of_25_megabytes(sending: Shop, catcher: Catcher) -> None:
    data = random.Random(7).randbytes(25 * MEGABYTE)
    mail = message("a@x.example")
    mail.add_attachment(data, "application", "zip", filename="photos.zip")
    (part,) = read(sent(sending, catcher, mail)).iter_attachments()
    assert part.get_filename() == "photos.zip"
    assert part.get_content() == data


@pytest.mark.long
@pytest.mark.over_and_over
def test_a_thousand_recipients(sending: Shop, catcher: Catcher) -> None:
    everybody = [f"reader{number:04}@x.example" for number in range(1000)]
    mail = sent(sending, catcher, message(*everybody))
    assert list(mail.recipients) == everybody
    assert [a.addr_spec for a in read(mail)["To"].addresses] == everybody
    assert set(sending.recipients(1).values()) == {"sent"}


@pytest.mark.long
@pytest.mark.over_and_over
def test_a_thousand_recipients_of_flask_mail(shops: Shops, catcher: Catcher) -> None:
    shop, db = shops.open_flask(MAIL_PORT=catcher.port)
    everybody = [f"reader{number:04}@x.example" for number in range(1000)]
    with shop.app.app_context():
        mail = OutboxMail(shop.app)
        mail.send_message("News", sender="shop@shop.example", bcc=everybody, body="x")
        db.session.commit()
    drain(shop.runtime)
    assert list(catcher.emails[0].recipients) == everybody
    assert b"reader" not in catcher.emails[0].content


@pytest.mark.parametrize("kind", [EmailMessage, Message])
def test_an_empty_body(sending: Shop, catcher: Catcher, kind: type[Message[Any, Any]]) -> None:
    mail = kind()
    mail["From"], mail["To"] = "shop@shop.example", "a@x.example"
    arrived = sent(sending, catcher, mail)
    _, gap, body = arrived.content.partition(b"\r\n\r\n")
    assert (gap, body) == (b"\r\n\r\n", b"")
    assert read(arrived).get_payload() == ""


WORDS = "word " * 1999 + "end"  # 9,998 characters
UMLAUTS = "wörd" * 2500


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("text", [WORDS, UMLAUTS], ids=["words", "umlauts"])
@pytest.mark.parametrize("parsed", [True, False])
def test_a_header_of_10_000_characters(
    sending: Shop, catcher: Catcher, text: str, parsed: bool
) -> None:
    mail: Message[Any, Any] = message("a@x.example", subject=text)
    if parsed:
        mail = email.message_from_bytes(mail.as_bytes())
    arrived = sent(sending, catcher, mail)
    assert max(map(len, arrived.content.split(b"\r\n"))) <= 998
    assert read(arrived)["Subject"] == text


def test_a_header_of_10_000_characters_on_one_line_is_folded(
    sending: Shop, catcher: Catcher
) -> None:
    arrived = sent(sending, catcher, legacy(b"x", Subject=WORDS))
    assert max(map(len, arrived.content.split(b"\r\n"))) <= 78
    assert read(arrived)["Subject"] == WORDS


def test_a_header_without_a_blank_to_fold_at_is_refused(shop: Shop) -> None:
    with shop.session() as session:
        with pytest.raises(InvalidMessage, match="998 octets"):
            shop.outbox.enqueue(legacy(b"x", **{"X-Own": "x" * 10_000}), session=session)
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize("kind", ["plain", "html"])
def test_a_line_of_5_000_characters(sending: Shop, catcher: Catcher, kind: str) -> None:
    text = f"before\n{'x' * 5000}\nafter\n"
    mail = MIMEText(text, kind, "us-ascii")
    mail["From"], mail["To"] = "shop@shop.example", "a@x.example"
    arrived = sent(sending, catcher, mail)
    assert max(map(len, arrived.content.split(b"\r\n"))) <= 998
    assert read(arrived).get_payload(decode=True) == text.replace("\n", "\r\n").encode()


SMUGGLED = b"MAIL FROM:<evil@x.example>\r\nRCPT TO:<b@x.example>\r\nDATA\r\nSubject: two\r\n\r\nx"


@pytest.mark.parametrize(
    "end", [b"\n.\n", b"\r.\r", b"\r\n.\n", b"\n.\r\n", b"\r\n.\r", b"\r\n.\r\n"]
)
@pytest.mark.one_database("postgresql")
@pytest.mark.databases("sqlite", "postgresql")
def test_no_line_end_smuggles_a_second_email(sending: Shop, catcher: Catcher, end: bytes) -> None:
    """CVE-2023-51764: servers that take a bare line end for one would see the end of the email."""
    arrived = sent(sending, catcher, legacy(b"one" + end + SMUGGLED))
    body = arrived.content.partition(b"\r\n\r\n")[2]
    assert body == b"one\r\n.\r\n" + SMUGGLED + b"\r\n"
    assert arrived.recipients == ("a@x.example",)


def test_bare_line_ends_and_lone_dots_arrive_as_lines(sending: Shop, catcher: Catcher) -> None:
    arrived = sent(sending, catcher, legacy(b".\na\r.\rb\n\n..\r\n.c\r\r\n...\n."))
    body = arrived.content.partition(b"\r\n\r\n")[2]
    assert body == b".\r\na\r\n.\r\nb\r\n\r\n..\r\n.c\r\n\r\n...\r\n.\r\n"
    assert b"\r" not in arrived.content.replace(b"\r\n", b"")
    assert b"\n" not in arrived.content.replace(b"\r\n", b"")


@pytest.mark.parametrize("damage", ["torn", "flipped", "emptied", "removed"])
def test_a_damaged_content_fails_alone_and_is_named(
    sending: Shop, catcher: Catcher, damage: str
) -> None:
    _, hurt, _ = (sending.enqueue(f"{name}@x.example").id for name in "abc")
    spoil(sending, hurt, damage)
    drain(sending.runtime)
    assert sending.statuses() == ["sent", "failed", "sent"]
    assert [mail.recipients for mail in catcher.emails] == [("a@x.example",), ("c@x.example",)]
    result = sending.app.test_cli_runner().invoke(args=["outbox", "show", str(hurt), "--json"])
    shown = json.loads(result.stdout)
    assert shown["status"] == "failed"
    (attempt,) = shown["attempt_list"]
    assert attempt["reply"] == "the stored content is missing or damaged"
    text = sending.app.test_cli_runner().invoke(args=["outbox", "show", str(hurt)]).output
    assert "the stored content is missing or damaged" in text


def test_an_email_whose_recipients_rows_are_gone_fails_alone_and_says_so(
    sending: Shop, catcher: Catcher
) -> None:
    sending.enqueue("a@x.example")
    hurt = sending.enqueue("b@x.example", "c@x.example").id
    sending.enqueue("d@x.example", "e@x.example")
    recipient = sending.tables.recipient
    with sending.engine.begin() as connection:
        connection.execute(sa.delete(recipient).where(recipient.c.email_id == hurt))
    drain(sending.runtime)
    assert sending.statuses() == ["sent", "failed", "sent"]
    assert sorted(catcher.copies().values()) == [1, 1, 1]
    (attempt,) = sending.rows(sending.tables.attempt, sending.tables.attempt.c.email_id == hurt)
    assert (attempt.verdict, attempt.reply) == ("fail", "the stored recipients are missing")
    assert sending.rows(sending.tables.lease) == []


def spoil(shop: Shop, email_id: int, damage: str) -> None:
    """Damage the stored content of one email behind our back."""
    content = shop.tables.content
    content_id = shop.email_row(email_id).content_id
    (row,) = shop.rows(content, content.c.id == content_id)
    if damage == "removed":
        with shop.engine.begin() as connection:
            without_foreign_keys(connection)
            connection.execute(sa.delete(content).where(content.c.id == content_id))
        return
    middle = len(row.body) // 2
    flipped = row.body[:middle] + bytes([row.body[middle] ^ 1]) + row.body[middle + 1 :]
    body = {"torn": row.body[:-1], "flipped": flipped, "emptied": b""}[damage]
    with shop.engine.begin() as connection:
        connection.execute(sa.update(content).where(content.c.id == content_id).values(body=body))


def without_foreign_keys(connection: sa.Connection) -> None:
    """Let this transaction remove what is referred to, as a failed disk or a bad restore does."""
    statement = {
        "postgresql": "SET LOCAL session_replication_role = replica",
        "mysql": "SET foreign_key_checks = 0",
        "mariadb": "SET foreign_key_checks = 0",
    }.get(connection.dialect.name)
    if statement:
        connection.exec_driver_sql(statement)


@pytest.fixture
def old_server() -> Iterator[Catcher]:
    """A server that does not offer SMTPUTF8."""
    with Catcher(smtputf8=False) as server:
        yield server


def test_an_email_that_needs_smtputf8_waits_with_its_reason_and_the_next_one_goes(
    shops: Shops, old_server: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=old_server.port)
    first, second = shop.enqueue("jö@x.example"), shop.enqueue("a@x.example")
    drain(shop.runtime)
    assert (shop.status(first.id), shop.status(second.id)) == (Status.PENDING, Status.SENT)
    assert [mail.recipients for mail in old_server.emails] == [("a@x.example",)]
    reasons = {row.email_id: row.reply for row in shop.rows(shop.tables.attempt)}
    assert "does not offer SMTPUTF8" in reasons[first.id]


def test_smtputf8_is_asked_for_only_by_the_email_that_needs_it(
    sending: Shop, catcher: Catcher
) -> None:
    sending.enqueue("jö@bücher.example")
    sending.enqueue("a@straße.example")
    drain(sending.runtime)
    first, second = catcher.emails
    assert first.recipients == ("jö@xn--bcher-kva.example",)
    assert "SMTPUTF8" in first.mail_options
    assert "To: jö@xn--bcher-kva.example\r\n".encode() in first.content
    assert second.recipients == ("a@xn--strae-oqa.example",)
    assert "SMTPUTF8" not in second.mail_options
    assert second.content.isascii()
