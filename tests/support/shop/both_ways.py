"""The corpus as an app writes it, sent by the outbox, and by Flask-Mail and smtplib themselves."""

from __future__ import annotations

import smtplib
from email.utils import formatdate, make_msgid

import flask
import flask_mail
import pytest

from outbox.worker.drain import drain
from tests.support.corpus.meant import WRITERS, can_say
from tests.support.corpus.whole import CORPUS
from tests.support.servers.smtp.postfix import Postfix
from tests.support.shop.shop import Shops

MEANT = {name: meant for name, meant in CORPUS.items() if can_say("Flask-Mail", meant)}
UNSENT = {name for name, meant in MEANT.items() if meant.needs_smtputf8} | {
    "a header of one's own in German",
    "a list's name in German",
    "an organisation",
}
"""Those of which smtplib says that it cannot encode them."""


def by_the_outbox(shops: Shops, postfix: Postfix, writer: str = "Flask-Mail") -> dict[str, bytes]:
    shop = shops.open(MAIL_PORT=postfix.ports["all"])
    with shop.app.app_context(), shop.session() as session:
        rows = {
            name: shop.outbox.enqueue(WRITERS[writer](meant), session=session)
            for name, meant in CORPUS.items()
            if can_say(writer, meant)
        }
        ids = {name: row.message_id for name, row in rows.items()}
        session.commit()
    drain(shop.runtime)
    return postfix.delivered(ids)


def by_flask_mail(postfix: Postfix) -> dict[str, bytes]:
    app = flask.Flask("theirs")
    app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=postfix.ports["all"])
    mail, ids = flask_mail.Mail(app), {}
    with app.app_context(), mail.connect() as connection:
        for name, meant in MEANT.items():
            message = meant.as_flask_mail()
            if name in UNSENT:
                with pytest.raises(UnicodeEncodeError):
                    connection.send(message)
                continue
            connection.send(message)
            ids[name] = message.msgId
    return postfix.delivered(ids)


def by_smtplib(postfix: Postfix, names: set[str]) -> dict[str, bytes]:
    """Send each as the standard library writes it, with what its documentation says to add."""
    ids = {}
    with smtplib.SMTP("127.0.0.1", postfix.ports["all"]) as connection:
        for name in sorted(names):
            message = CORPUS[name].as_standard()
            if "Message-ID" not in message:
                message["Message-ID"] = make_msgid(domain="shop.example")
            if "Date" not in message:
                message["Date"] = formatdate()
            connection.send_message(message)
            ids[name] = message["Message-ID"]
    return postfix.delivered(ids)
