"""A program written for Flask-Mail 0.10, run with its `Mail` and unchanged with the drop-in.

Nothing below asks which of the two it has, but `start` and `deliver`. Flask-Mail's has an app of
its own, because beside an outbox it is refused. The outbox sends after the commit.
"""

from __future__ import annotations

import email
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.header import decode_header, make_header
from typing import Any

import pytest
from flask import Flask
from flask_mail import Attachment, BadHeaderError, Mail, Message, email_dispatched
from flask_sqlalchemy import SQLAlchemy

from outbox import OutboxMail
from outbox.worker.drain import drain
from tests.integration.dropin.conftest import plain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops

pytestmark = [
    pytest.mark.one_database("sqlite"),
    pytest.mark.databases("sqlite", "postgresql"),
]


@dataclass(kw_only=True)
class Program:
    """An app with the one or the other `Mail`."""

    kind: type[Mail]
    app: Flask
    outbox: tuple[Shop, SQLAlchemy] | None
    catcher: Catcher
    mail: Mail

    def deliver(self) -> tuple[CaughtMail, ...]:
        """Return what arrived so far."""
        if self.outbox is not None:
            shop, db = self.outbox
            db.session.commit()
            drain(shop.runtime)
        return self.catcher.emails


Start = Callable[..., Program]


@pytest.fixture(params=[Mail, OutboxMail], ids=["Mail", "OutboxMail"])
def start(request: pytest.FixtureRequest, shops: Shops, catcher: Catcher) -> Iterator[Start]:
    """Starts the program with these settings, in an app context."""
    contexts = []

    def start(**config: object) -> Program:
        settings = {"MAIL_PORT": catcher.port, "MAIL_DEFAULT_SENDER": "shop@shop.example"}
        outbox = shops.open_flask(**settings | config) if request.param is OutboxMail else None
        app = plain(**settings | config) if outbox is None else outbox[0].app
        contexts.append(app.app_context())
        contexts[-1].push()
        mail = request.param(app)
        return Program(kind=request.param, app=app, outbox=outbox, catcher=catcher, mail=mail)

    yield start
    for context in contexts:
        context.pop()


@pytest.fixture
def program(start: Start) -> Program:
    return start()


def subjects(emails: tuple[CaughtMail, ...]) -> list[str]:
    return [str(email.message_from_bytes(mail.content)["Subject"]) for mail in emails]


def test_send(program: Program) -> None:
    program.mail.send(Message("Order 1", recipients=["ada@x.example"], body="Thanks"))
    (mail,) = program.deliver()
    assert (mail.sender, mail.recipients) == ("shop@shop.example", ("ada@x.example",))
    assert mail.content.endswith(b"\r\n\r\nThanks\r\n")


def test_send_message(program: Program) -> None:
    program.mail.send_message("Order 1", recipients=["ada@x.example"], body="Thanks")
    assert subjects(program.deliver()) == ["Order 1"]


def test_a_message_sends_itself_over_a_connection(program: Program) -> None:
    with program.mail.connect() as connection:
        Message("Order 1", recipients=["ada@x.example"]).send(connection)
        connection.send_message("Order 2", recipients=["bo@x.example"])
        assert connection.num_emails == 2
    assert subjects(program.deliver()) == ["Order 1", "Order 2"]


@pytest.mark.long
def test_a_message_that_grows(program: Program) -> None:
    message = Message("Order 1", body="Thanks")
    message.add_recipient("ada@x.example")
    message.add_recipient(("Bo", "bo@x.example"))
    message.html = "<p>Thanks</p>"
    message.attach("terms.txt", "text/plain", "Be kind.")
    message.attachments.append(Attachment("a.bin", "application/octet-stream", b"\0"))
    program.mail.send(message)
    (mail,) = program.deliver()
    assert sorted(mail.recipients) == ["ada@x.example", "bo@x.example"]
    kinds = [part.get_content_type() for part in email.message_from_bytes(mail.content).walk()]
    assert kinds[:3] == ["multipart/mixed", "multipart/alternative", "text/plain"]
    assert kinds[3:] == ["text/html", "text/plain", "application/octet-stream"]


@pytest.mark.parametrize("sender", ["bounce@shop.example", ("Bounce", "bounce@shop.example")])
def test_another_envelope_sender(program: Program, sender: str | tuple[str, str]) -> None:
    with program.mail.connect() as connection:
        message = Message("Order 1", recipients=["ada@x.example"])
        connection.send(message, envelope_from=sender)
    (mail,) = program.deliver()
    assert mail.sender == "bounce@shop.example"
    assert email.message_from_bytes(mail.content)["From"] == "shop@shop.example"


@pytest.mark.parametrize("sender", [None, "", ()])
def test_without_another_envelope_sender_it_is_the_message_s(program: Program, sender: Any) -> None:
    with program.mail.connect() as connection:
        connection.send(Message("Order 1", recipients=["ada@x.example"]), envelope_from=sender)
    assert [mail.sender for mail in program.deliver()] == ["shop@shop.example"]


@pytest.mark.parametrize("sender", [("a@x.example",), ("A", "a@x.example", "b@x.example")])
def test_an_envelope_sender_that_is_no_pair_is_a_value_error(
    program: Program, sender: tuple[str, ...]
) -> None:
    message = Message("Order 1", recipients=["ada@x.example"])
    with program.mail.connect() as connection, pytest.raises(ValueError, match=r"pair|unpack"):
        connection.send(message, envelope_from=sender)  # type: ignore[arg-type]
    assert program.deliver() == ()


def test_record_messages(start: Start) -> None:
    program = start(TESTING=True)
    with program.mail.record_messages() as outbox:
        program.mail.send_message("Order 1", recipients=["ada@x.example"])
        program.mail.send_message("Order 2", recipients=["ada@x.example"])
    program.mail.send_message("Order 3", recipients=["ada@x.example"])
    assert [message.subject for message in outbox] == ["Order 1", "Order 2"]
    assert program.deliver() == ()


def test_email_dispatched(program: Program) -> None:
    seen: list[tuple[str, Flask, bool]] = []

    def receiver(app: Flask, message: Message) -> None:
        seen.append((message.subject, app, message.date is not None))

    with email_dispatched.connected_to(receiver):
        program.mail.send_message("Order 1", recipients=["ada@x.example"])
    assert seen == [("Order 1", program.app, True)]
    assert len(program.deliver()) == 1


@pytest.mark.parametrize(
    ("config", "arrived"),
    [
        ({"TESTING": True}, 0),
        ({"MAIL_SUPPRESS_SEND": True}, 0),
        ({"TESTING": True, "MAIL_SUPPRESS_SEND": False}, 1),
    ],
)
def test_suppressed(start: Start, config: dict[str, bool], arrived: int) -> None:
    program = start(**config)
    program.mail.send_message("Order 1", recipients=["ada@x.example"])
    assert len(program.deliver()) == arrived


def test_so_many_emails_a_connection(start: Start) -> None:
    program = start(MAIL_MAX_EMAILS=2)
    with program.mail.connect() as connection:
        for number in range(5):
            connection.send_message(f"Order {number}", recipients=["ada@x.example"])
        assert connection.num_emails == 1
    assert len(program.deliver()) == 5
    assert program.catcher.sessions == 3


@pytest.mark.parametrize("sender", ["desk@shop.example", ("The Desk", "desk@shop.example")])
def test_the_default_sender(start: Start, sender: object) -> None:
    program = start(MAIL_DEFAULT_SENDER=sender)
    program.mail.send_message("Order 1", recipients=["ada@x.example"])
    (mail,) = program.deliver()
    assert mail.sender == "desk@shop.example"
    shown = str(make_header(decode_header(email.message_from_bytes(mail.content)["From"])))
    assert shown in ("desk@shop.example", "The Desk <desk@shop.example>")


@pytest.mark.parametrize(
    ("wanted", "name"), [(True, "Grue fur alle.txt"), (False, "Grüße  für\u00a0alle.txt")]
)
def test_ascii_attachments(start: Start, wanted: bool, name: str) -> None:
    program = start(MAIL_ASCII_ATTACHMENTS=wanted)
    message = Message("Order 1", recipients=["ada@x.example"])
    message.attach("Grüße  für\u00a0alle.txt", "text/plain", b"x")
    program.mail.send(message)
    (mail,) = program.deliver()
    assert list(email.message_from_bytes(mail.content).walk())[-1].get_filename() == name


BAD: dict[str, dict[str, Any]] = {
    "a subject with a line break": {"subject": "x\r\nBcc: evil@x.example"},
    "a subject with a bare LF": {"subject": "x\ny"},
    "a subject with an empty line": {"subject": "x\r\n \r\n y"},
    "a sender with a line break": {"sender": "a@x.example\r\nBcc: evil@x.example"},
    "a recipient with a line break": {"recipients": ["a@x.example\r\nBcc: evil@x.example"]},
    "a name with a line break": {"recipients": [("x\ny", "a@x.example")]},
    "a reply-to with a line break": {"reply_to": "a@x.example\rBcc: evil@x.example"},
}


@pytest.mark.matrix
@pytest.mark.parametrize("config", [{}, {"TESTING": True}], ids=["sent", "suppressed"])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.databases("sqlite")
def test_bad_headers(start: Start, bad: str, config: dict[str, bool]) -> None:
    program = start(**config)
    message = Message(**{"subject": "x", "recipients": ["ada@x.example"]} | BAD[bad])
    with pytest.raises(BadHeaderError):
        program.mail.send(message)
    assert program.deliver() == ()


def test_a_message_knows_its_bad_headers_by_the_old_name_too(program: Program) -> None:
    message = Message("x\ny", recipients=["ada@x.example"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert message.is_bad_headers()
    assert message.has_bad_headers()


@pytest.mark.parametrize("config", [{}, {"TESTING": True}], ids=["sent", "suppressed"])
def test_neither_recipient_nor_sender(start: Start, config: dict[str, bool]) -> None:
    program = start(MAIL_DEFAULT_SENDER=None, **config)
    with pytest.raises(AssertionError, match="No recipients"):
        program.mail.send(Message("x", sender="a@x.example"))
    with pytest.raises(AssertionError, match="sender"):
        program.mail.send(Message("x", recipients=["ada@x.example"]))
    assert program.deliver() == ()


def test_an_application_factory(program: Program) -> None:
    mail = program.kind()
    state = mail.init_app(program.app)
    assert state is program.app.extensions["mail"]
    assert state.default_sender == program.mail.default_sender == "shop@shop.example"
    mail.send_message("Order 1", recipients=["ada@x.example"])
    assert len(program.deliver()) == 1


def test_an_app_without_email(program: Program) -> None:
    with Flask("other").app_context(), pytest.raises(RuntimeError, match="not configured"):
        program.kind().connect()
