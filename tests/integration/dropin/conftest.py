"""Flask-Mail itself and the drop-in, each on an app, before one real SMTP server."""

from __future__ import annotations

import email
from collections.abc import Iterator
from dataclasses import dataclass
from email import policy
from typing import Any

import flask_mail
import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from outbox import OutboxMail
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops
from tests.unit.flask_ext.test_convert_flask_mail import fields

DEFAULTS: dict[str, Any] = {
    "subject": "Order 1",
    "recipients": ["ada@x.example"],
    "body": "Thank you.\n",
    "sender": "shop@shop.example",
}


def attachment(*values: Any, **options: Any) -> flask_mail.Attachment:
    return flask_mail.Attachment(*values, **options)


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    """A server that offers DSN, so that options of a message can be seen."""
    with Catcher(dsn=True) as server:
        yield server


@dataclass(frozen=True, kw_only=True)
class Both:
    """Flask-Mail on an app of its own, because beside an outbox it is refused; and the drop-in."""

    plain: Flask
    shop: Shop
    db: SQLAlchemy
    catcher: Catcher

    def send(self, **given: Any) -> tuple[CaughtMail, CaughtMail]:
        """Send one message object through each; return what arrived."""
        self.theirs(message := self.message(**given))
        self.ours(message)
        theirs, ours = self.catcher.emails
        return theirs, ours

    def message(self, **given: Any) -> flask_mail.Message:
        with self.shop.app.app_context():
            return flask_mail.Message(**DEFAULTS | given)

    def theirs(self, message: flask_mail.Message) -> None:
        with self.plain.app_context():
            flask_mail.Mail(self.plain).send(message)

    def ours(self, message: flask_mail.Message) -> None:
        with self.shop.app.app_context():
            OutboxMail(self.shop.app).send(message)
            self.db.session.commit()
        drain(self.shop.runtime)


@pytest.fixture
def both(shops: Shops, catcher: Catcher) -> Both:
    shop, db = shops.open_flask(MAIL_PORT=catcher.port)
    return Both(plain=plain(MAIL_PORT=catcher.port), shop=shop, db=db, catcher=catcher)


def plain(**config: Any) -> Flask:
    """Return an app without an outbox."""
    app = Flask("plain")
    app.config.update(MAIL_SERVER="127.0.0.1", **config)
    return app


def parsed(mail: CaughtMail) -> email.message.Message[Any, Any]:
    return email.message_from_bytes(mail.content, policy=policy.compat32)


def parts(mail: CaughtMail) -> list[tuple[Any, ...]]:
    """Return each part's headers, charset, disposition, file name, Content-ID and octets."""
    return [
        (
            fields(part),
            part.get_content_type(),
            part.get_content_charset(),
            part.get_content_disposition(),
            part.get_filename(),
            part["Content-ID"],
            None if part.is_multipart() else part.get_payload(decode=True),
        )
        for part in parsed(mail).walk()
    ]


def options(mail: CaughtMail) -> list[str]:
    return [option for option in mail.mail_options if option.partition("=")[0] not in OURS]


OURS = ("SIZE", "BODY")
"""What a client says of the content by itself."""
