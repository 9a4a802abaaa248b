"""What is rendered leaves in octets under 128: no server has to offer 8BITMIME for it."""

from __future__ import annotations

import email
from email import policy
from email.message import EmailMessage, Message
from email.mime.application import MIMEApplication
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import flask_mail
import pytest

from outbox.domain.message.render import RenderedMessage, render, render_shared
from outbox.flask_ext.messages import fast_path
from outbox.flask_ext.messages.convert import standard

pytestmark = pytest.mark.usefixtures("flask_mail_context")

LIMITS: dict[str, Any] = {"max_size": 10**7, "split_size": 10**7}
GERMAN = "Grüße aus Köln, und vielen Dank für Ihre Bestellung.\n"
CHINESE = "感谢您的订购, 您的包裹将于明天送达。\n"
TEXTS = {
    "german": GERMAN,
    "chinese": CHINESE,
    "blanks at ends": "ä \t\nä\t\n \n-- \nJö",
    "dots": "ä\n.\n..\n.ä\n",
    "equals": "ä=3D==\n=\n",
    "a long line": "ä" * 3000 + "\n",
    "From at a line's start": "ä\nFrom me\n",
    "no end": "ä",
    "bare line ends": "ä\rb\r\nc\n\rd\r",
}


def flask_message(text: str, **fields: Any) -> flask_mail.Message:
    return flask_mail.Message(
        "s", sender="a@b.example", recipients=["c@d.example"], body=text, **fields
    )


def made(text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message.set_content(text)
    return message


def mime_text(text: str) -> Message[Any, Any]:
    message = MIMEText(text, "plain", "utf-8")
    message["From"], message["To"] = "a@b.example", "c@d.example"
    return message


def ready(message: Message[Any, Any]) -> RenderedMessage:
    return render(message, send_at=None, **LIMITS)


def lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")


def read(content: bytes) -> EmailMessage:
    found = email.message_from_bytes(content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def short_way(text: str) -> bytes:
    found = fast_path.render_fast(flask_message(text), send_at=None, **LIMITS)
    assert found is not None
    return found.content


WAYS: dict[str, Any] = {
    "flask_mail, the short way": short_way,
    "flask_mail, the long way": lambda text: ready(standard(flask_message(text))).content,
    "EmailMessage": lambda text: ready(made(text)).content,
    "MIMEText": lambda text: ready(mime_text(text)).content,
}


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_leaves_as_7_bit_and_arrives_as_it_was(way: str, text: str) -> None:
    content = WAYS[way](text)
    assert content.isascii()
    assert b"8bit" not in content
    assert max(map(len, content.split(b"\r\n"))) <= 78
    assert lines(read(content).get_content()) == lines(text)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("text", "encoding"),
    [("plain\n", "7bit"), (GERMAN * 9, "quoted-printable"), (CHINESE * 9, "base64")],
)
def test_the_shorter_encoding_is_taken(way: str, text: str, encoding: str) -> None:
    found = read(WAYS[way](text))
    assert found.get_all("Content-Transfer-Encoding") == [encoding]


def test_a_content_that_many_share_leaves_as_7_bit() -> None:
    message = made(GERMAN)
    message.add_alternative(f"<p>{CHINESE}</p>", subtype="html")
    del message["To"]
    _, content, _ = render_shared(message, send_at=None, max_size=10**7)
    assert content.isascii()
    text, html = read(content).iter_parts()
    assert isinstance(text, EmailMessage)
    assert isinstance(html, EmailMessage)
    assert lines(text.get_content()) == lines(GERMAN)
    assert lines(html.get_content()) == lines(f"<p>{CHINESE}</p>")


def test_a_message_within_a_message_is_not_labelled_8bit_and_its_text_is_encoded() -> None:
    message = made("see below\n")
    message.add_attachment(made(GERMAN))
    message.add_attachment(made("plain\n"))
    content = ready(message).content
    assert content.isascii()
    assert b"8bit" not in content
    _, first, second = read(content).iter_parts()
    assert lines(first.get_content().get_content()) == lines(GERMAN)
    assert second.get_content().get_content() == "plain\r\n"


def test_a_file_that_is_given_in_8_bits_arrives_octet_for_octet() -> None:
    data = bytes(range(256)) + b"\n\r\n\r"
    message = made("see the file\n")
    message.add_attachment(data, "application", "x-own", cte="8bit", filename="a.bin")
    content = ready(message).content
    assert content.isascii()
    (part,) = read(content).iter_attachments()
    assert part.get_content() == data


def test_the_user_s_message_keeps_its_encoding() -> None:
    message = made(GERMAN)
    ready(message)
    assert message["Content-Transfer-Encoding"] == "8bit"
    assert message.get_content() == GERMAN


PARSED = (
    "From: a@b.example\r\nTo: c@d.example\r\nMIME-Version: 1.0\r\n"
    "Message-ID: <a@b>\r\nDate: Mon, 01 Jan 2024 00:00:00 +0000\r\n"
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    "Grüße\r\n"
).encode()


@pytest.mark.parametrize("parser", [policy.compat32, policy.default], ids=repr)
def test_a_parsed_message_is_kept_as_it_came(parser: policy.Policy[Any]) -> None:
    assert ready(email.message_from_bytes(PARSED, policy=parser)).content == PARSED


def dkim(text: str) -> Message[Any, Any]:
    message = made(text)
    message["DKIM-Signature"] = "v=1; d=b.example; h=from; bh=x; b=y"
    return message


def pgp(text: str) -> Message[Any, Any]:
    message = MIMEMultipart("signed", protocol="application/pgp-signature")
    message["From"], message["To"] = "a@b.example", "c@d.example"
    message.attach(MIMEText(text, "plain", "utf-8"))
    message.attach(MIMEBase("application", "pgp-signature"))
    return message


def smime(text: str) -> Message[Any, Any]:
    message = MIMEApplication(b"", "pkcs7-mime", lambda part: part.set_payload(text, "utf-8"))
    message["From"], message["To"] = "a@b.example", "c@d.example"
    return message


def forwarded(text: str) -> Message[Any, Any]:
    message = made("see below\n")
    message.add_attachment(dkim(text))
    return message


@pytest.mark.parametrize("sign", [dkim, pgp, smime, forwarded])
def test_what_is_signed_stays_as_it_was(sign: Any) -> None:
    content = ready(sign(GERMAN)).content
    assert GERMAN.replace("\n", "\r\n").encode() in content
    assert b"quoted-printable" not in content
    assert b"Content-Transfer-Encoding: 8bit" in content
