"""The same messages by Flask-Mailman's own SMTP backend and by ours: what must arrive alike."""

from __future__ import annotations

from collections.abc import Callable
from email.mime.image import MIMEImage
from email.mime.text import MIMEText
from pathlib import Path
from typing import Any

import flask_mailman
import pytest
from flask import Flask
from flask_mailman import EmailMessage, EmailMultiAlternatives

from outbox.worker.drain import drain
from tests.integration.dropin.conftest import options, parsed, parts, plain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.databases("sqlite")

SENDER = "Shop <shop@shop.example>"
PDF = b"%PDF-1.7\0\xff\r\n." * 500
PNG = b"\x89PNG\r\n\x1a\n\0"
Make = Callable[[], EmailMessage]


def email(subject: str = "Order 1", body: str = "Thanks.\n", **given: Any) -> EmailMessage:
    return EmailMessage(subject, body, **{"from_email": SENDER, "to": ["ada@x.example"]} | given)


def with_html(**given: Any) -> EmailMessage:
    message = EmailMultiAlternatives("Order 1", "Thanks.", SENDER, ["ada@x.example"], **given)
    message.attach_alternative("<p>Thänks.</p>", "text/html")
    return message


def changed(message: EmailMessage, **attributes: Any) -> EmailMessage:
    for name, value in attributes.items():
        setattr(message, name, value)
    return message


def with_file(name: str, content: Any, kind: str | None = None) -> EmailMessage:
    return email(attachments=[(name, content, kind)])


def with_part(part: Any) -> EmailMessage:
    message = email()
    message.attach(part)
    return message


def with_file_of_disk() -> EmailMessage:
    message = email()
    message.attach_file(str(Path(__file__)))
    return message


SAME: dict[str, Make] = {
    "a plain text": email,
    "no text": lambda: email(body=""),
    "no subject": lambda: email(subject=""),
    "a text with CRLF and dots": lambda: email(body="a\r\n.\r\n..b\r\n"),
    "From at the start of a line": lambda: email(body="From the desk\n"),
    "a text outside of ASCII": lambda: email(body="Grüße aus Köln, 😀\n"),
    "long lines": lambda: email(body="ü" * 3000 + "\n"),
    "a text in Latin-1": lambda: changed(email("Grüße", "Grüße\n"), encoding="iso-8859-1"),
    "a subject outside of ASCII": lambda: email("Grüße an alle: 😀 " * 8),
    "a long subject": lambda: email("a plain subject " * 20),
    "only HTML": lambda: changed(email(body="<p>x</p>"), content_subtype="html"),
    "alternatives": with_html,
    "alternatives and a file": lambda: with_html(attachments=[("a.pdf", PDF, "application/pdf")]),
    "related parts": lambda: changed(
        with_html(attachments=[("a.png", PNG, "image/png")]), mixed_subtype="related"
    ),
    "a file": lambda: with_file("a.pdf", PDF, "application/pdf"),
    "a file whose kind is guessed": lambda: with_file("a.html", "<p>"),
    "a file of no kind": lambda: with_file("a", b"octets"),
    "a text as a file": lambda: with_file("a.txt", "Grüße\n", "text/plain"),
    "octets as a text file": lambda: with_file("a.txt", "Grüße\n".encode(), "text/plain"),
    "no text, for all its name": lambda: with_file("a.txt", b"\xff\xfe", "text/plain"),
    "a file name outside of ASCII": lambda: with_file("Grüße 😀.pdf", PDF, "application/pdf"),
    "a file of the disk": with_file_of_disk,
    "a part": lambda: with_part(MIMEImage(PNG, "png")),
    "a text part": lambda: with_part(MIMEText("Grüße", "plain", "utf-8")),
    "a message": lambda: email(attachments=[("", email("Inner").message(), "message/rfc822")]),
    "a message as text": lambda: email(attachments=[("", "To: x\n\ny\n", "message/rfc822")]),
    "names": lambda: email(
        from_email="Jörg <shop@shop.example>", to=["Jörg Müller <jo@x.example>", "bo@x.example"]
    ),
    "a name with a comma": lambda: email(to=['"Doe, Jo" <jo@x.example>', "bo@x.example"]),
    "a sender as a pair": lambda: email(from_email=("Shöp", "shop@shop.example")),
    "an international domain": lambda: email(to=["ada@bücher.example"]),
    "cc, bcc and reply-to": lambda: email(
        cc=["c@x.example", "Di <d@x.example>"],
        bcc=["e@x.example"],
        reply_to=["desk@shop.example", "Bo <bo@x.example>"],
    ),
    "many recipients": lambda: email(to=[f"r{n}@x.example" for n in range(60)]),
    "extra headers": lambda: email(
        headers={
            "X-Shop": "1",
            "X-Text": "Grüße",
            "List-Unsubscribe": "<https://shop.example/u/7f3a>",
        }
    ),
    "an own id and date": lambda: email(
        headers={"message-ID": "<1@x.example>", "date": "Mon, 04 May 2026 12:00:00 +0000"}
    ),
    "headers of a message that was sent on": lambda: email(
        headers={"Resent-Date": "Mon, 04 May 2026 12:00:00 +0000", "Resent-To": "x@y.example"}
    ),
    "another From than the envelope's": lambda: email(headers={"From": "desk@shop.example"}),
    "a Sender, which is not the envelope's": lambda: email(headers={"Sender": "d@shop.example"}),
}


@pytest.fixture
def apps(shops: Shops, catcher: Catcher) -> tuple[Flask, Flask]:
    """An app with Flask-Mailman alone, and one with an outbox."""
    ours = shops.open_flask(MAIL_PORT=catcher.port)[0].app
    theirs = plain(MAIL_PORT=catcher.port)
    for app in (theirs, ours):
        flask_mailman.Mail(app)
    return theirs, ours


def both(apps: tuple[Flask, Flask], catcher: Catcher, make: Make) -> tuple[CaughtMail, CaughtMail]:
    for app in apps:
        with app.app_context():
            assert make().send() == 1
    drain(apps[1].extensions["outbox"].runtime)
    theirs, ours = catcher.emails
    return theirs, ours


def compared(mail: CaughtMail) -> list[tuple[Any, ...]]:
    """Return the parts, without the headers that each sending makes anew."""
    found = parts(mail)
    for part in found:
        for name in ("message-id", "date"):
            value = part[0].pop(name, None)
            assert value is None or len(value) == 1
    return found


@pytest.mark.parametrize("case", SAME)
def test_what_arrives_is_what_flask_mailman_sends(
    apps: tuple[Flask, Flask], catcher: Catcher, case: str
) -> None:
    theirs, ours = both(apps, catcher, SAME[case])
    assert (ours.sender, sorted(ours.recipients)) == (theirs.sender, sorted(theirs.recipients))
    assert (options(ours), ours.rcpt_options) == (options(theirs), theirs.rcpt_options)
    assert compared(ours) == compared(theirs)


@pytest.mark.parametrize("name", ["Message-ID", "Date"])
def test_an_id_and_a_date_of_the_program_s_own_arrive(
    apps: tuple[Flask, Flask], catcher: Catcher, name: str
) -> None:
    theirs, ours = both(apps, catcher, SAME["an own id and date"])
    assert parsed(ours).get_all(name) == parsed(theirs).get_all(name)


def test_a_header_that_flask_mailman_writes_twice_arrives_once(
    apps: tuple[Flask, Flask], catcher: Catcher
) -> None:
    """RFC 5322 §3.6 allows each once, and large receivers refuse two."""
    headers = {
        "To": "list@x.example",
        "Subject": "Order 2",
        "Reply-To": "desk@shop.example",
        "MIME-Version": "1.0 (by the shop)",
    }
    theirs, ours = both(
        apps, catcher, lambda: email(headers=headers, reply_to=["other@shop.example"])
    )
    for name, value in headers.items():
        assert len(parsed(theirs).get_all(name, [])) == 2
        assert parsed(ours).get_all(name) == [value]
    assert ours.recipients == theirs.recipients == ("ada@x.example",)
