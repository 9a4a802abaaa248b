"""Converts Flask-Mailman's `EmailMessage` to a standard message and its envelope."""

from __future__ import annotations

from collections.abc import Container, Iterable
from email.message import Message
from typing import Any

from ...domain.errors import InvalidMessage
from ...domain.message.render import GivenEnvelope
from .convert import check_options, listed
from .people import Pair, pair_of, pairs_of

_ONCE = ("To", "Cc", "Reply-To", "Subject", "MIME-Version")
"""Flask-Mailman writes these twice if they are extra headers, too (RFC 5322 §3.6, 2045 §4)."""


def composed(
    email: Any, mail_options: Iterable[str] | None
) -> tuple[Message[Any, Any], GivenEnvelope]:
    """Return the message as Flask-Mailman composes it, and its envelope.

    The envelope is that of Flask-Mailman's own SMTP backend. Its addresses can differ from those
    in the headers. Raises InvalidMessage, and what Flask-Mailman raises for a bad header.
    """
    if not email.from_email:
        raise InvalidMessage("sender", "is required; set from_email or MAIL_DEFAULT_SENDER")
    options = list(mail_options or ())
    check_options(options, [])
    message: Message[Any, Any] = email.message()
    sender = pair_of("sender", email.from_email)
    people = {"From": [sender], "To": _pairs(email, "to"), "Cc": _pairs(email, "cc")}
    everyone = (*people["To"], *people["Cc"], *_pairs(email, "bcc"))
    recipients = tuple(dict.fromkeys(address for _, address in everyone))
    own = {name.lower() for name in email.extra_headers}
    if "message-id" not in own:
        del message["Message-ID"]  # of this host's name, which tells a reader nothing
    _keep_last(message)
    named = _name(message, people | {"Reply-To": _pairs(email, "reply_to")}, own)
    _hide(message, [address for address in recipients if address not in named])
    envelope = GivenEnvelope(sender=sender[1], recipients=recipients, mail_options=tuple(options))
    return message, envelope


def _pairs(email: Any, field: str) -> list[Pair]:
    return pairs_of(field, filter(None, getattr(email, field)))


def _name(
    message: Message[Any, Any], people: dict[str, list[Pair]], own: Container[str]
) -> set[str]:
    """Write names quoted, and addresses as in the envelope; return the recipients named so.

    A header of the user's own stays as it is, and so does one with names that are encoded already.
    """
    recipients: set[str] = set()
    for name, pairs in people.items():
        if not pairs or name.lower() in own or any("=?" in shown for shown, _ in pairs):
            continue
        message.replace_header(name, listed(name, pairs))
        if name in ("To", "Cc"):
            recipients.update(address for _, address in pairs)
    return recipients


def _keep_last(message: Message[Any, Any]) -> None:
    for name in _ONCE:
        values = message.get_all(name, [])
        if len(values) > 1:
            del message[name]
            Message.__setitem__(message, name, values[-1])


def _hide(message: Message[Any, Any], recipients: list[str]) -> None:
    """Name recipients in Bcc, which is never sent."""
    del message["Bcc"]
    if recipients:
        Message.__setitem__(message, "Bcc", ", ".join(recipients))
