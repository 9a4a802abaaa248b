"""The messages that the shop enqueues, each with text and HTML from `templates/messages/`."""

from __future__ import annotations

from flask import current_app, render_template
from flask_mail import Message

from .invoices.invoice import invoice
from .models import Newsletter, Order


def confirmation(order: Order) -> Message:
    """Return the message that thanks for an order, repeats it, and has the invoice attached."""
    subject = f"Your order {order.number}"
    message = _message("confirmation", subject, [order.email], order=order)
    message.attach(f"Invoice {order.number}.pdf", "application/pdf", invoice(order))
    return message


def new_password(address: str, link: str, minutes: int) -> Message:
    """Return the message with the link that sets a new password."""
    subject = "Set a new password"
    return _message("new_password", subject, [address], link=link, minutes=minutes)


def issue(newsletter: Newsletter) -> Message:
    """Return an issue of the newsletter; its recipients are given when it is enqueued."""
    return _message("issue", newsletter.subject, [], newsletter=newsletter)


def _message(template: str, subject: str, recipients: list[str], **context: object) -> Message:
    context["shop"] = current_app.config["PUBLIC_URL"]
    return Message(
        subject,
        recipients=list(recipients),
        sender=current_app.config["MAIL_DEFAULT_SENDER"],
        body=render_template(f"messages/{template}.txt", **context),
        html=render_template(f"messages/{template}.html", **context),
    )
