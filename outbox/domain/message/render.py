"""Turns a message into what is stored: envelope, own headers, content. Refuses bad input."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from email.message import Message
from email.utils import format_datetime, formatdate, make_msgid
from typing import Any

from ..errors import InvalidMessage
from ..header.address import MAX_RECIPIENTS, check_address
from ..header.address import id_domain as domain_for_id
from ..header.fields import DESTINATIONS, LEAKS, addresses, check_headers, international
from ..header.signatures import is_dkim_signed, is_signed
from ..mime import structure
from ..mime.line_endings import fits, header_names
from ..mime.serialize import flatten
from ..mime.seven_bit import encode_made
from ..values import value_type

MAX_MESSAGE_ID = 250
HIDDEN = ("Bcc", "Resent-Bcc")
"""Headers that are never sent: they name recipients whom the others must not see."""

RESENT = tuple(f"Resent-{name}" for name in DESTINATIONS)

VOLATILE = re.compile(rb"^(?:date|message-id):.*\r\n(?:[ \t].*\r\n)*", re.IGNORECASE | re.MULTILINE)
_MESSAGE_ID = re.compile(r"<[!-~]+@[!-~]+>")


@value_type(frozen=True, kw_only=True, slots=True)
class GivenEnvelope:
    """An envelope that the message's headers do not tell: checked addresses and options."""

    sender: str
    recipients: tuple[str, ...]
    mail_options: tuple[str, ...]


@value_type(frozen=True, kw_only=True, slots=True)
class RenderedMessage:
    """One email, ready to be stored. The bytes on the wire are `headers` + `content`."""

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    headers: bytes
    content: bytes
    smtputf8: bool = False
    mail_options: tuple[str, ...] = ()
    rcpt_options: tuple[str, ...] = ()
    merge: str | None = None  # the values with which a template made `content`

    @property
    def size(self) -> int:
        """Octets on the wire before dot-stuffing, as RFC 1870's SIZE counts them."""
        return len(self.headers) + len(self.content)

    @property
    def eightbit(self) -> bool:
        """Whether the content needs 8BITMIME (RFC 6152)."""
        return not (self.content.isascii() and self.headers.isascii())

    def under(self, envelope: GivenEnvelope) -> RenderedMessage:
        """Return the same email with another envelope."""
        people = (envelope.sender, *envelope.recipients)
        return replace(
            self,
            sender=envelope.sender,
            recipients=envelope.recipients,
            mail_options=envelope.mail_options,
            smtputf8=self.smtputf8 or not all(map(str.isascii, people)),
        )

    def fingerprint(self) -> bytes:
        """Return a digest of the envelope and the email, without Date and Message-ID.

        Those two change when a request is tried again. Nothing else does, because boundaries are
        made from the content.
        """
        head, _, body = (self.headers + self.content).partition(b"\r\n\r\n")
        digest = hashlib.sha256(VOLATILE.sub(b"", head + b"\r\n"))
        for group in ((self.sender,), self.recipients, self.mail_options, self.rcpt_options):
            digest.update(b"\1" + b"".join(b"\0" + part.encode() for part in group))
        digest.update(b"\0" + body)
        return digest.digest()


def render(
    message: Message[Any, Any],
    *,
    send_at: datetime | None,
    max_size: int,
    split_size: int,
    id_domain: str = "",
    named: tuple[str, ...] = (),
) -> RenderedMessage:
    """Check and render a whole message, Bcc removed, Date and Message-ID added where missing.

    `id_domain` is the right side of a Message-ID that is added; empty: the sender's domain. `named`
    are the recipients where no header names one.

    An email of `split_size` octets or more keeps its header block apart. So a content that is
    stored already is found again for any recipient. Raises InvalidMessage.
    """
    with _readable():
        check_headers(message)
        sender = envelope_sender(message)
        recipients = _recipients(message) or named
        if not recipients:
            raise InvalidMessage("recipients", "at least one is required")
        own_domain = id_domain or domain_for_id(sender)
        message_id, smtputf8, data = _render(message, send_at, own_domain)
    _check_size(len(data), max_size)
    headers, content = split(data, split_size)
    return RenderedMessage(
        sender=sender,
        recipients=recipients,
        message_id=message_id,
        headers=headers,
        content=content,
        smtputf8=smtputf8 or not all(map(str.isascii, (sender, *recipients))),
    )


def split(data: bytes, split_size: int) -> tuple[bytes, bytes]:
    """Return an email's own headers and its content; under `split_size` octets all is content."""
    place = data.index(b"\r\n\r\n") + 2 if len(data) >= split_size else 0
    return data[:place], data[place:]


def render_shared(
    message: Message[Any, Any], *, send_at: datetime | None, max_size: int
) -> tuple[str, bytes, bool]:
    """Render a content that many emails share: (envelope sender, content, needs SMTPUTF8).

    It holds every header except To and Message-ID, which are each email's own. Raises
    InvalidMessage.
    """
    with _readable():
        check_headers(message)
        for name in DESTINATIONS:
            if name in message:
                rule = "must not be in a shared content: give the recipients separately"
                raise InvalidMessage(name.lower(), rule)
        sender = envelope_sender(message)
        _, smtputf8, data = _render(message, send_at)
    _check_size(len(data), max_size)
    return sender, data, smtputf8 or not sender.isascii()


@contextmanager
def _readable() -> Iterator[None]:
    """Raise InvalidMessage for what cannot be read or written: the caller learns it now."""
    try:
        yield
    except InvalidMessage:
        raise
    except LEAKS as error:
        reason = f"cannot be read or written ({type(error).__name__})"
        raise InvalidMessage("message", reason) from None


def envelope_sender(message: Message[Any, Any]) -> str:
    """Return the reverse path: Sender if there is one, else the only author."""
    authors = addresses(message, "From")
    if not authors:
        raise InvalidMessage("from", "is required (RFC 5322 §3.6.2)")
    senders = addresses(message, "Sender")
    if len(senders or authors) != 1:
        raise InvalidMessage("sender", "several authors need one Sender (RFC 5322 §3.6.2)")
    return check_address((senders or authors)[0].addr_spec, "sender" if senders else "from")


def refuse_resent(message: Message[Any, Any]) -> None:
    """Refuse a message that somebody sends on to others (RFC 5322 §3.6.6).

    To, Cc and Bcc name those who have it already. `smtplib.send_message` knows such a message by
    its Resent-Date, too; without that the other headers mean nothing.
    """
    for name in RESENT if "Resent-Date" in message else ():
        if name in message:
            rule = (
                "names no recipients here: send the message on under To, Cc and Bcc, and take its"
                " Resent- headers out (RFC 5322 §3.6.6)"
            )
            raise InvalidMessage(name.lower(), rule)


def _recipients(message: Message[Any, Any]) -> tuple[str, ...]:
    found = [
        check_address(address.addr_spec, name.lower())
        for name in DESTINATIONS
        for address in addresses(message, name)
    ]
    refuse_many(len(found))
    return tuple(dict.fromkeys(found))


def refuse_many(recipients: int) -> None:
    """Raise InvalidMessage for more recipients than one email may have."""
    if recipients > MAX_RECIPIENTS:
        raise InvalidMessage("recipients", f"are more than {MAX_RECIPIENTS}; use enqueue_many")


def _render(
    message: Message[Any, Any], send_at: datetime | None, id_domain: str = ""
) -> tuple[str, bool, bytes]:
    """Return the Message-ID, whether SMTPUTF8 is needed, and the octets.

    Without an `id_domain` no Message-ID is written, because each email has its own.
    """
    message = structure.detached(message)
    for name in HIDDEN if id_domain else (*HIDDEN, "Message-ID"):
        del message[name]
    message_id = _message_id(message, id_domain) if id_domain else ""
    if send_at is not None and not ("Date" in message and is_dkim_signed(message)):
        del message["Date"]
        message["Date"] = format_datetime(send_at)
    elif "Date" not in message:
        message["Date"] = formatdate()
    smtputf8 = international(message)
    encode_made(message)
    structure.set_boundaries(message)
    data = flatten(message, smtputf8=smtputf8)
    if not fits(data):
        message = structure.encoded(message)
        data = flatten(message, smtputf8=smtputf8)
        if not fits(data):
            raise InvalidMessage("message", _unfit(message, data))
    if not _is_as_given(data, message):
        raise InvalidMessage("header", "a value would be read as another header")
    return message_id, smtputf8, data


def _unfit(message: Message[Any, Any], data: bytes) -> str:
    fault = "a NUL" if b"\0" in data else "a line over 998 octets"
    if is_signed(message):
        return f"has {fault}; encode what is signed before signing (RFC 1847 §2.1)"
    return f"has {fault} (RFC 5322 §2)"


def _is_as_given(data: bytes, message: Message[Any, Any]) -> bool:
    """Return whether a receiver reads the headers that were given.

    Content-Transfer-Encoding does not count, because the generator may set it.
    """
    found = header_names(data[: data.index(b"\r\n\r\n") + 2])
    ours, given = (
        [name for name in names if name.lower() != "content-transfer-encoding"]
        for names in (found, message.keys())
    )
    return ours == given


def _message_id(message: Message[Any, Any], domain: str) -> str:
    given = message.get("Message-ID")
    if given is None:
        given = make_msgid(domain=domain)
        message["Message-ID"] = given
    return check_message_id(str(given))


def check_message_id(given: str) -> str:
    """Return the identifier without blanks around it, or raise InvalidMessage."""
    message_id = given.strip()
    if len(message_id) > MAX_MESSAGE_ID or not _MESSAGE_ID.fullmatch(message_id):
        raise InvalidMessage("message-id", "must be <left@right> of at most 250 characters")
    return message_id


def _check_size(size: int, max_size: int) -> None:
    if size > max_size:
        raise InvalidMessage("message", f"is {size} bytes; OUTBOX_MAX_SIZE allows {max_size}")
