"""Every way in which an app with Flask-Mail or Flask-Mailman sends, and what the outbox does there.

`ENQUEUED` names the ways that enqueue in the session's transaction. `REFUSED` names those of
Flask-Mail that would speak SMTP inside the request: each raises an error that names the remedy.
`test_mailman_doors.py` has those of Flask-Mailman. A client of `smtplib` that an app makes itself
is none of these ways.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask_mail
import flask_mailman
import pytest
from flask import Flask, current_app
from flask_mailman.backends import smtp
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import insert

from outbox import ConfigurationError, OutboxMail
from outbox.mailman import EmailBackend
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops

pytestmark = [pytest.mark.databases("sqlite", "postgresql"), pytest.mark.matrix]

Way = Callable[[Flask], object]
ORDER: dict[str, Any] = {
    "subject": "Order 1",
    "recipients": ["ada@x.example"],
    "body": "Thanks.",
    "sender": "shop@shop.example",
}
TO = ["ada@x.example"]


def mail() -> flask_mail.Message:
    return flask_mail.Message(**ORDER)


def mailman(**options: Any) -> flask_mailman.EmailMessage:
    return flask_mailman.EmailMessage("Order 1", "Thanks.", "shop@shop.example", TO, **options)


def entry() -> Any:
    return current_app.extensions["mail"]


def by_hand(mail: Any) -> flask_mail.Connection:
    """Return Flask-Mail's own connection; its type asks for a Mail, where it takes a state."""
    return flask_mail.Connection(mail)


def over(connection: Any, send: Callable[[Any], object]) -> object:
    """Open the connection, and send over it."""
    with connection as opened:
        return send(opened)


def mailmans(app: Flask, **config: Any) -> Any:
    app.config.update(config)
    return flask_mailman.Mail(app)


def with_backend_set_later(app: Flask) -> None:
    found = mailmans(app, MAIL_BACKEND="dummy")
    found.state.backend = "smtp"
    mailman().send()


def made_since(app: Flask) -> None:
    drop_in = OutboxMail(app)
    flask_mail.Mail(app)
    drop_in.send(mail())


FLASK_MAIL: dict[str, Way] = {
    "OutboxMail.send": lambda app: OutboxMail(app).send(mail()),
    "OutboxMail.send_message": lambda app: OutboxMail(app).send_message(**ORDER),
    "OutboxMail.send, after a flask_mail.Mail": made_since,
    "OutboxMail.state.send": lambda app: OutboxMail(app).init_app(app).send(mail()),
    "OutboxMail.connect, not opened": lambda app: OutboxMail(app).connect().send(mail()),
    "OutboxMail.connect": lambda app: over(OutboxMail(app).connect(), lambda c: c.send(mail())),
    "OutboxMail.connect, send_message": lambda app: over(
        OutboxMail(app).connect(), lambda c: c.send_message(**ORDER)
    ),
    "Message.send(OutboxMail.connect)": lambda app: over(OutboxMail(app).connect(), mail().send),
    "extensions.send": lambda app: entry().send(mail()),
    "extensions.send_message": lambda app: entry().send_message(**ORDER),
    "extensions.connect": lambda app: over(entry().connect(), lambda c: c.send(mail())),
    "Message.send(extensions.connect)": lambda app: over(entry().connect(), mail().send),
    "what flask_mail.Mail.init_app returns": lambda app: (
        flask_mail.Mail().init_app(app).send(mail())
    ),
    "flask_mail.Mail.state": lambda app: flask_mail.Mail(app).init_app(app).send(mail()),
}

FLASK_MAILMAN: dict[str, Way] = {
    "Mail.send_mail": lambda app: mailmans(app).send_mail("x", "y", "shop@shop.example", TO),
    "Mail.send_mail, with HTML and credentials": lambda app: mailmans(app).send_mail(
        "x", "y", "shop@shop.example", TO, auth_user="a", auth_password="b", html_message="<p>"
    ),
    "Mail.send_mass_mail": lambda app: mailmans(app).send_mass_mail(
        [("x", "y", "shop@shop.example", TO)]
    ),
    "EmailMessage.send": lambda app: (mailmans(app), mailman().send()),
    "EmailMultiAlternatives.send": lambda app: (
        mailmans(app),
        flask_mailman.EmailMultiAlternatives("x", "y", "shop@shop.example", TO).send(),
    ),
    "Mail.get_connection": lambda app: over(
        mailmans(app).get_connection(), lambda c: c.send_messages([mailman()])
    ),
    "EmailMessage(connection)": lambda app: mailman(
        connection=mailmans(app).get_connection()
    ).send(),
    "extensions.get_connection": lambda app: (
        mailmans(app),
        over(app.extensions["mailman"].get_connection(), lambda c: mailman(connection=c).send()),
    ),
    "a backend by its name": lambda app: (
        mailmans(app, MAIL_BACKEND="dummy")
        .get_connection("outbox.mailman")
        .send_messages([mailman()])
    ),
    "a backend made by hand": lambda app: (
        mailmans(app, MAIL_BACKEND="dummy"),
        EmailBackend().send_messages([mailman()]),
    ),
    "MAIL_BACKEND is the module": lambda app: (
        mailmans(app, MAIL_BACKEND="outbox.mailman"),
        mailman().send(),
    ),
    "MAIL_BACKEND is the class's name": lambda app: (
        mailmans(app, MAIL_BACKEND="outbox.mailman.EmailBackend"),
        mailman().send(),
    ),
    "MAIL_BACKEND is the class": lambda app: (
        mailmans(app, MAIL_BACKEND=EmailBackend),
        mailman().send(),
    ),
    "MAIL_BACKEND is smtp": lambda app: (mailmans(app, MAIL_BACKEND="smtp"), mailman().send()),
    "MAIL_BACKEND is smtp's class": lambda app: (
        mailmans(app, MAIL_BACKEND=smtp.EmailBackend),
        mailman().send(),
    ),
    "smtp is set later": with_backend_set_later,
}
ENQUEUED = {f"flask_mail: {name}": way for name, way in FLASK_MAIL.items()}
ENQUEUED |= {f"flask_mailman: {name}": way for name, way in FLASK_MAILMAN.items()}

PUT_OUTBOX_MAIL = r"put outbox\.OutboxMail in its place"
REFUSED: dict[str, Way] = {
    "flask_mail.Mail.send": lambda app: flask_mail.Mail(app).send(mail()),
    "flask_mail.Mail.send_message": lambda app: flask_mail.Mail(app).send_message(**ORDER),
    "flask_mail.Mail.connect": lambda app: over(flask_mail.Mail(app).connect(), mail().send),
    "flask_mail.Connection of Mail.state": lambda app: over(
        by_hand(flask_mail.Mail(app).init_app(app)), mail().send
    ),
    "flask_mail.Connection of extensions": lambda app: over(by_hand(entry()), mail().send),
    "flask_mail.Connection of Mail": lambda app: over(by_hand(flask_mail.Mail(app)), mail().send),
    "flask_mail.Connection of OutboxMail": lambda app: over(by_hand(OutboxMail(app)), mail().send),
}


@pytest.fixture
def opened(shops: Shops, catcher: Catcher) -> tuple[Shop, SQLAlchemy]:
    return shops.open_flask(MAIL_PORT=catcher.port)


@pytest.mark.parametrize("way", ENQUEUED)
def test_what_is_sent_commits_with_the_order_or_not_at_all(
    opened: tuple[Shop, SQLAlchemy], catcher: Catcher, way: str
) -> None:
    shop, db = opened
    for end in (db.session.rollback, db.session.commit):
        with shop.app.test_request_context():
            db.session.execute(insert(shop.orders).values(customer="Ada"))
            ENQUEUED[way](shop.app)
            assert (shop.statuses(), catcher.sessions) == ([], 0)
            end()
    assert (shop.statuses(), shop.count(shop.orders)) == (["pending"], 1)
    assert catcher.sessions == 0


@pytest.mark.parametrize("way", FLASK_MAIL)
def test_each_way_of_flask_mail_is_recorded(opened: tuple[Shop, SQLAlchemy], way: str) -> None:
    shop, _ = opened
    with shop.app.test_request_context(), OutboxMail(shop.app).record_messages() as recorded:
        FLASK_MAIL[way](shop.app)
    assert [message.subject for message in recorded] == ["Order 1"]


@pytest.mark.parametrize("way", ENQUEUED)
def test_what_is_suppressed_is_neither_written_nor_sent(
    opened: tuple[Shop, SQLAlchemy], catcher: Catcher, way: str
) -> None:
    shop, db = opened
    shop.app.config["TESTING"] = True
    with shop.app.test_request_context():
        ENQUEUED[way](shop.app)
        db.session.commit()
    assert (shop.statuses(), catcher.sessions) == ([], 0)


@pytest.mark.parametrize("way", REFUSED)
def test_what_would_speak_smtp_is_refused_with_the_remedy(
    opened: tuple[Shop, SQLAlchemy], catcher: Catcher, way: str
) -> None:
    shop, db = opened
    with shop.app.test_request_context():
        with pytest.raises(ConfigurationError, match=PUT_OUTBOX_MAIL):
            REFUSED[way](shop.app)
        db.session.commit()
    assert (shop.statuses(), catcher.sessions) == ([], 0)


def test_an_app_without_an_outbox_keeps_its_flask_mail(catcher: Catcher) -> None:
    app = Flask("plain")
    app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=catcher.port)
    with app.app_context():
        flask_mail.Mail(app).send(mail())
        mailmans(app)
        mailman().send()
    assert len(catcher.emails) == 2


def test_a_drop_in_without_an_outbox_says_what_is_missing() -> None:
    app = Flask("forgetful")
    with app.app_context(), pytest.raises(RuntimeError, match=r"call outbox\.init_app"):
        OutboxMail(app).send(mail())
