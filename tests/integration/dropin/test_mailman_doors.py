"""Each way to send by Flask-Mailman's own SMTP backend in an app with an outbox: all are refused.

`REFUSED` speaks with no server. `OPENED` connects first, as a program may, and is refused before a
message. `OWN` names the kinds of backend that a program derives from Flask-Mailman's. A client of
`smtplib` that a program makes elsewhere is no way of Flask-Mailman's.
"""

from __future__ import annotations

import smtplib
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask_mailman import EmailMessage, Mail
from flask_mailman.backends import smtp
from flask_sqlalchemy import SQLAlchemy

from outbox import ConfigurationError, Outbox
from tests.integration.dropin.conftest import plain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")

SHOP, TO = "shop@shop.example", ["ada@x.example"]
REMEDY = r'put "outbox\.mailman" in its place'
Way = Callable[[Mail], object]


def message(**options: Any) -> EmailMessage:
    return EmailMessage("Order 1", "Thanks.", SHOP, TO, **options)


def each_option(app: Flask) -> dict[str, Any]:
    """Return every option of the backend, so that it reads none from the app."""
    server = {"host": "127.0.0.1", "port": app.config["MAIL_PORT"], "username": "", "password": ""}
    return server | {
        "use_tls": 0,
        "use_ssl": 0,
        "timeout": 9,
        "ssl_keyfile": "",
        "ssl_certfile": "",
    }


def state_of_no_app(app: Flask) -> Any:
    return Mail.init_mail(app.config)


REFUSED: dict[str, Way] = {
    "get_connection(name)": lambda mail: mail.get_connection("smtp").send_messages([message()]),
    "get_connection(module)": lambda mail: mail.get_connection(
        "flask_mailman.backends.smtp"
    ).send_messages([message()]),
    "get_connection(path)": lambda mail: mail.get_connection(
        "flask_mailman.backends.smtp.EmailBackend"
    ).send_messages([message()]),
    "get_connection(class)": lambda mail: mail.get_connection(smtp.EmailBackend).send_messages(
        [message()]
    ),
    "the entry's get_connection": lambda mail: mail.state.get_connection("smtp").send_messages(
        [message()]
    ),
    "made by hand": lambda mail: smtp.EmailBackend().send_messages([message()]),
    "with every option": lambda mail: smtp.EmailBackend(**each_option(mail.app)).send_messages(
        [message()]
    ),
    "with a state that no app has": lambda mail: smtp.EmailBackend(
        mailman=state_of_no_app(mail.app)
    ).send_messages([message()]),
    "silently": lambda mail: smtp.EmailBackend(fail_silently=True).send_messages([message()]),
    "silently, and the server is away": lambda mail: smtp.EmailBackend(
        port=1, fail_silently=True
    ).send_messages([message()]),
    "an iterator of messages": lambda mail: smtp.EmailBackend().send_messages(iter([message()])),
    "after a message for nobody": lambda mail: smtp.EmailBackend().send_messages(
        [EmailMessage("x", "y", SHOP), message()]
    ),
    "EmailMessage(connection)": lambda mail: message(connection=smtp.EmailBackend()).send(),
    "EmailMessage(connection).send, silently": lambda mail: message(
        connection=smtp.EmailBackend()
    ).send(fail_silently=True),
    "send_mail(connection)": lambda mail: mail.send_mail(
        "x", "y", SHOP, TO, fail_silently=True, connection=mail.get_connection("smtp")
    ),
    "send_mass_mail(connection)": lambda mail: mail.send_mass_mail(
        [("x", "y", SHOP, TO)], connection=mail.get_connection("smtp")
    ),
}


def opened(send: Callable[[Any], object], **options: Any) -> Way:
    """Return a way that opens a backend, and sends by it."""

    def way(mail: Mail) -> object:
        with smtp.EmailBackend(**options) as backend:
            return send(backend)

    return way


def raw(line: str | bytes) -> Way:
    return opened(lambda backend: backend.connection.send(line))


TEXT = f"From: {SHOP}\r\nTo: {TO[0]}\r\n\r\nThanks.\r\n"
OPENED: dict[str, Way] = {
    "send_messages": opened(lambda backend: backend.send_messages([message()])),
    "send_messages, silently": opened(
        lambda backend: backend.send_messages([message()]), fail_silently=True
    ),
    "_send": opened(lambda backend: backend._send(message())),
    "_send, silently": opened(lambda backend: backend._send(message()), fail_silently=True),
    "sendmail": opened(lambda backend: backend.connection.sendmail(SHOP, TO, TEXT)),
    "send_message": opened(
        lambda backend: backend.connection.send_message(message().message(), SHOP, TO)
    ),
    "sendmail, of a state that no app has": lambda mail: opened(
        lambda backend: backend.connection.sendmail(SHOP, TO, TEXT),
        mailman=state_of_no_app(mail.app),
    )(mail),
    "mail": opened(lambda backend: backend.connection.mail(SHOP)),
    "docmd": opened(lambda backend: backend.connection.docmd("MAIL", f"FROM:<{SHOP}>")),
    "docmd, all in one": opened(lambda backend: backend.connection.docmd(f"mail from:<{SHOP}>")),
    "putcmd": opened(lambda backend: backend.connection.putcmd("Mail", f"from:<{SHOP}>")),
    "a raw line": raw(f"MAIL FROM:<{SHOP}>\r\n"),
    "raw octets": raw(f"MAIL FROM:<{SHOP}>\r\n".encode()),
    "a raw line after another": raw(f"RSET\r\n MAIL\tFROM:<{SHOP}>\r\n"),
}


class OfItsOptions(smtp.EmailBackend):  # type: ignore[misc]
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{"timeout": 9} | options)


class OfItsSend(smtp.EmailBackend):  # type: ignore[misc]
    def _send(self, email_message: Any) -> bool:
        self.connection.sendmail(SHOP, TO, TEXT)
        return True


class OfItsSendMessages(smtp.EmailBackend):  # type: ignore[misc]
    def send_messages(self, email_messages: Any) -> int:
        self.open()
        self.connection.sendmail(SHOP, TO, TEXT)
        self.close()
        return 1


class OfItsClient(smtp.EmailBackend):  # type: ignore[misc]
    def send_messages(self, email_messages: Any) -> int:
        with smtplib.SMTP(self.host, self.port) as client:
            client.sendmail(SHOP, TO, TEXT)
        return 1


class OfItsOpen(smtp.EmailBackend):  # type: ignore[misc]
    def open(self) -> bool:
        self.connection = smtplib.SMTP(self.host, self.port)
        self.connection.sendmail(SHOP, TO, TEXT)
        return True


OWN = (OfItsOptions, OfItsSend, OfItsSendMessages, OfItsClient, OfItsOpen)


def by_config(own: type[Any], mail: Mail) -> None:
    mail.app.config["MAIL_BACKEND"] = own
    Mail(mail.app)
    message().send(fail_silently=True)


def open_first(own: type[Any], mail: Mail) -> None:
    with own() as backend:
        backend.send_messages([message()])


WAYS_OF_OWN: dict[str, Callable[[type[Any], Mail], object]] = {
    "MAIL_BACKEND": by_config,
    "get_connection": lambda own, mail: mail.get_connection(own).send_messages([message()]),
    "by hand": lambda own, mail: own(**each_option(mail.app)).send_messages([message()]),
    "opened": open_first,
}


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open_flask(MAIL_PORT=catcher.port)[0]


@pytest.fixture
def asked(catcher: Catcher) -> list[str]:
    """The recipients that the server was asked for."""
    found: list[str] = []
    catcher.reply_to_recipient = found.append
    return found


def refused(shop: Shop, send: Way) -> None:
    """Send, and see the error with the remedy and nothing in the outbox."""
    with shop.app.app_context():
        mail = Mail(shop.app)
        with pytest.raises(ConfigurationError, match=REMEDY):
            send(mail)
    assert shop.statuses() == []


@pytest.mark.matrix
@pytest.mark.parametrize("testing", [False, True], ids=["", "testing"])
@pytest.mark.parametrize("way", REFUSED)
def test_it_is_refused_before_it_connects(
    shop: Shop, catcher: Catcher, way: str, testing: bool
) -> None:
    shop.app.config["TESTING"] = testing
    refused(shop, REFUSED[way])
    assert catcher.sessions == 0


@pytest.mark.parametrize("way", OPENED)
def test_an_open_connection_takes_no_message(
    shop: Shop, catcher: Catcher, asked: list[str], way: str
) -> None:
    refused(shop, OPENED[way])
    assert (catcher.sessions, catcher.quits) == (1, 1)
    assert (asked, catcher.emails) == ([], ())


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS_OF_OWN)
@pytest.mark.parametrize("own", OWN)
def test_a_backend_that_inherits_from_it_is_refused(
    shop: Shop, catcher: Catcher, asked: list[str], own: type[Any], way: str
) -> None:
    refused(shop, lambda mail: WAYS_OF_OWN[way](own, mail))
    assert (asked, catcher.emails) == ([], ())


def test_what_was_opened_before_the_outbox_came_is_refused_since(catcher: Catcher) -> None:
    app, db = plain(MAIL_PORT=catcher.port, SQLALCHEMY_DATABASE_URI="sqlite://"), SQLAlchemy()
    db.init_app(app)
    mail = Mail(app)
    with app.app_context(), mail.get_connection("smtp") as backend:
        backend.send_messages([message()])
        Outbox(app, db)
        with pytest.raises(ConfigurationError, match=REMEDY):
            backend.send_messages([message()])
        with pytest.raises(ConfigurationError, match=REMEDY):
            backend.connection.sendmail(SHOP, TO, TEXT)
    assert len(catcher.emails) == 1


def test_without_an_app_context_its_state_tells_whose_it_is(shop: Shop, catcher: Catcher) -> None:
    with shop.app.app_context():
        Mail(shop.app)
        backend, email = smtp.EmailBackend(), message()
    with pytest.raises(ConfigurationError, match=REMEDY):
        backend.send_messages([email])
    assert catcher.sessions == 0


@pytest.mark.parametrize("own", [smtp.EmailBackend, *OWN[:-1]])
def test_an_app_without_an_outbox_sends_beside_one_that_has_it(
    shop: Shop, catcher: Catcher, own: type[Any]
) -> None:
    Mail(shop.app)
    app = plain(MAIL_PORT=catcher.port, MAIL_BACKEND=own)
    Mail(app)
    with app.app_context():
        assert message().send() == 1
        with own() as backend:
            backend.connection.sendmail(SHOP, TO, TEXT)
    assert len(catcher.emails) == 2
