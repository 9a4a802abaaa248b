"""A subclass of Flask-Mail's `Message` that renders itself is sent as it renders itself."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import flask_mail
import pytest

from outbox import InvalidMessage
from tests.integration.dropin.conftest import DEFAULTS, Both, parsed
from tests.support.servers.smtp.catcher import CaughtMail

pytestmark = pytest.mark.one_database("sqlite")

SECRET = "the secret is 42"
SEALED = "-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----\n"


@pytest.fixture(autouse=True)
def _context(both: Both) -> Iterator[None]:
    with both.shop.app.app_context():
        yield


class Encrypted(flask_mail.Message):
    """It overrides the method that Flask-Mail makes the message with."""

    def _message(self) -> MIMEBase:
        message = super()._message()
        message.set_payload(SEALED)
        return message


class EncryptedText(flask_mail.Message):
    def _mimetext(self, text: str | None, subtype: str = "plain") -> MIMEText:
        return super()._mimetext(SEALED, subtype)


class EncryptedOctets(flask_mail.Message):
    def as_bytes(self) -> bytes:
        head = super().as_bytes().partition(b"\r\n\r\n")[0]
        return head + b"\r\n\r\n" + SEALED.encode().replace(b"\n", b"\r\n")


class Signed(flask_mail.Message):
    """It has a text with octets over 127 and blanks at line ends, which encoding would change."""

    def _message(self) -> MIMEBase:
        inner = super()._message()
        text = MIMEText("Grüße \n-- \nShop\n")
        text.replace_header("Content-Transfer-Encoding", "8bit")
        text.set_payload("Grüße \n-- \nShop\n".encode().decode("ascii", "surrogateescape"))
        outer = MIMEMultipart("signed", protocol="application/pgp-signature")
        for name in ("Subject", "From", "To", "Date", "Message-ID"):
            outer[name] = inner[name]
        outer.attach(text)
        outer.attach(MIMEBase("application", "pgp-signature"))
        outer.set_boundary("=_signed")
        outer.policy = inner.policy
        return outer


class Dkim(flask_mail.Message):
    def as_bytes(self) -> bytes:
        return b"DKIM-Signature: v=1; a=rsa-sha256; d=shop.example; bh=x;\r\n b=y\r\n" + (
            super().as_bytes()
        )


class Redirected(flask_mail.Message):
    """On a staging system nobody but a developer gets an email."""

    @property
    def send_to(self) -> set[Any]:
        return {"dev@shop.example"}


class Hidden(flask_mail.Message):
    """Its headers name nobody whom it is sent to."""

    def _message(self) -> MIMEBase:
        message = super()._message()
        message.replace_header("To", "everyone@list.example")
        return message


def made(kind: type[flask_mail.Message], **given: Any) -> flask_mail.Message:
    return kind(**DEFAULTS | {"body": SECRET, "date": 1_777_896_000.0} | given)


def text(message: Message[Any, Any]) -> str:
    return str(message.get_payload()).replace("\r\n", "\n")


def only(both: Both) -> CaughtMail:
    (mail,) = both.catcher.emails
    return mail


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [Encrypted, EncryptedText, EncryptedOctets])
@pytest.mark.parametrize("more", [{}, {"extra_headers": {"X-Order": "1"}}])
def test_an_encrypted_message_leaves_encrypted(
    both: Both, kind: type[flask_mail.Message], more: dict[str, Any]
) -> None:
    both.theirs(message := made(kind, **more))
    both.ours(message)
    theirs, ours = both.catcher.emails
    for mail in (theirs, ours):
        assert text(parsed(mail)) == SEALED
        assert SECRET.encode() not in mail.content
    assert (ours.sender, ours.recipients) == (theirs.sender, theirs.recipients)
    assert parsed(ours)["X-Order"] == parsed(theirs)["X-Order"]
    assert parsed(ours)["Message-ID"] == message.msgId
    assert message.msgId.endswith("@shop.example>")


@pytest.mark.parametrize("kind", [Signed, Dkim])
def test_a_signed_message_arrives_as_it_was_signed(
    both: Both, kind: type[flask_mail.Message]
) -> None:
    message = made(kind, body=SECRET + "\n")
    octets = message.as_bytes()
    both.ours(message)
    assert only(both).content == octets.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


@pytest.mark.long
def test_the_envelope_is_flask_mail_s(both: Both) -> None:
    """Headers do not name a Bcc, and a class may name others there than it writes to."""
    for kind in (Encrypted, Hidden):
        both.theirs(message := made(kind, cc=["c@x.example"], bcc=["b@x.example"]))
        both.ours(message)
    for mail in both.catcher.emails:
        assert mail.sender == "shop@shop.example"
        assert sorted(mail.recipients) == ["ada@x.example", "b@x.example", "c@x.example"]
        assert b"b@x.example" not in mail.content


def test_a_class_that_names_the_recipients_is_asked_for_them(both: Both) -> None:
    both.theirs(message := made(Redirected))
    both.ours(message)
    theirs, ours = both.catcher.emails
    assert theirs.recipients == ours.recipients == ("dev@shop.example",)
    assert parsed(ours)["To"] == "ada@x.example"


class RedirectedAndSealed(Redirected, Encrypted):
    """It overrides both."""


@pytest.mark.parametrize("kind", [Redirected, RedirectedAndSealed])
def test_recipients_whom_only_the_class_names_get_the_email(
    both: Both, kind: type[flask_mail.Message]
) -> None:
    both.theirs(message := made(kind, recipients=[]))
    both.ours(message)
    both.shop.outbox.enqueue_many([made(kind, recipients=None)])
    both.db.session.commit()
    both.ours(made(kind, recipients=["ada@x.example"]))
    for mail in both.catcher.emails:
        assert mail.recipients == ("dev@shop.example",)
        assert b"dev@shop.example" not in mail.content


class Nobody(flask_mail.Message):
    @property
    def send_to(self) -> set[Any]:
        return set()


def test_a_class_that_names_nobody_is_refused(both: Both) -> None:
    for recipients in ([], ["ada@x.example"]):
        with pytest.raises(InvalidMessage, match="recipients: at least one is required"):
            both.shop.outbox.enqueue(made(Nobody, recipients=recipients))


def test_each_way_to_enqueue_takes_it_as_it_renders_itself(both: Both) -> None:
    outbox = both.shop.outbox
    outbox.enqueue_many([made(Encrypted, recipients=[], bcc=["b@x.example"])])
    outbox.enqueue_many(made(Encrypted, recipients=[]), ["c@x.example", "d@x.example"])
    outbox.enqueue(made(Encrypted))
    both.db.session.commit()
    both.ours(made(Encrypted))
    found = {mail.recipients: parsed(mail) for mail in both.catcher.emails}
    assert sorted(found) == [(f"{name}@x.example",) for name in ("ada", "b", "c", "d")]
    for message in found.values():
        assert text(message) == SEALED
        assert message["To"] != ""


def test_the_same_message_again_is_the_same_email(both: Both) -> None:
    """A multipart of Flask-Mail's would have another boundary each time."""
    one, two = (made(EncryptedText, html="<p>Hello</p>") for _ in range(2))
    first = both.shop.outbox.enqueue(one, key="order-1")
    assert both.shop.outbox.enqueue(two, key="order-1").id == first.id


def test_what_could_begin_another_header_is_refused(both: Both) -> None:
    for given in (
        {"extra_headers": {"X-A": "ok\r\nBcc: e@evil.example"}},
        {"subject": "a\r\nb: c"},
    ):
        for kind in (Encrypted, EncryptedOctets):
            with pytest.raises(InvalidMessage, match="control characters"):
                both.shop.outbox.enqueue(made(kind, **given))


class Broken(flask_mail.Message):
    def _message(self) -> MIMEBase:
        raise LookupError("no key for this reader")


def test_an_error_of_the_class_reaches_the_app(both: Both) -> None:
    with pytest.raises(LookupError, match="no key for this reader"):
        both.shop.outbox.enqueue(made(Broken))


class Text(flask_mail.Message):
    def as_bytes(self) -> Any:
        return self.as_string()


class NoMessage(flask_mail.Message):
    def _message(self) -> Any:
        return b"Subject: x\r\n\r\n"


class Modern(flask_mail.Message):
    def _message(self) -> Any:
        message = EmailMessage()
        message["From"], message["To"], message["Bcc"] = "a@x.example", "c@x.example", "x@x.example"
        message.set_content("Grüße\n")
        return message


def test_what_a_class_returns_is_checked(both: Both) -> None:
    for kind, words in ((Text, "must return bytes"), (NoMessage, "must return a standard")):
        with pytest.raises(InvalidMessage, match=words):
            both.shop.outbox.enqueue(made(kind))
    both.ours(made(Modern))
    mail = only(both)
    assert (mail.sender, mail.recipients) == ("shop@shop.example", ("ada@x.example",))
    assert isinstance(parsed(mail), Message)
    assert parsed(mail)["To"] == "c@x.example"


def test_a_subclass_that_only_adds_fields_is_no_other_message(both: Both) -> None:
    class Receipt(flask_mail.Message):
        order = 1

    both.ours(made(Receipt, recipients=[("Doe, Jane", "ada@x.example")]))
    message = email.message_from_bytes(only(both).content)
    assert message["To"] == '"Doe, Jane" <ada@x.example>'
