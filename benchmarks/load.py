"""The mail that every contestant sends: text and HTML, about 1 KB on the wire."""

from __future__ import annotations

import flask_mail

TEXT = "Thank you for your order. We shall send it tomorrow.\n" * 6
HTML = "<p>Thank you for your order. We shall send it tomorrow.</p>\n" * 6


def message(number: int) -> flask_mail.Message:
    """Return one customer's confirmation; needs an app context."""
    return flask_mail.Message(
        "Your order",
        sender="shop@example.com",
        recipients=[f"customer-{number}@example.com"],
        body=TEXT,
        html=HTML,
    )
