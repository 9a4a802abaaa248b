"""The email that every contestant sends: text and HTML, about 1 KB on the wire."""

from __future__ import annotations

import flask_mail
from flask import Flask

TEXT = "Thank you for your order. We shall send it tomorrow.\n" * 2
HTML = "<p>Thank you for your order. We shall send it tomorrow.</p>\n" * 2
SENDER = "shop@example.com"
SUBJECT = "Your order"


def address(number: int) -> str:
    """Return one customer's address."""
    return f"customer-{number}@example.com"


def message(number: int) -> flask_mail.Message:
    """Return one customer's confirmation; needs an app context."""
    return message_to(address(number))


def message_to(recipient: str) -> flask_mail.Message:
    """Return a confirmation to this address; needs an app context."""
    return flask_mail.Message(SUBJECT, sender=SENDER, recipients=[recipient], body=TEXT, html=HTML)


def newsletter(reader: str = "reader") -> flask_mail.Message:
    """Return the content of a newsletter, without recipients; needs an app context."""
    text, html = f"Hello {reader},\n\n{TEXT}", f"<p>Hello {reader}</p>\n{HTML}"
    return flask_mail.Message("News", sender=SENDER, body=text, html=html)


def prepared() -> bytes:
    """Return one confirmation's bytes, for a loop that sends the same bytes each time."""
    app = Flask(__name__)
    flask_mail.Mail(app)
    with app.app_context():
        return message(0).as_bytes()
