"""Makes a new message of an email: the same content, with a Message-ID and Date of its own."""

from __future__ import annotations

from dataclasses import replace
from email.parser import BytesHeaderParser, HeaderParser
from email.utils import formatdate, make_msgid

from ..errors import InvalidMessage
from ..header.address import id_domain
from ..header.fields import ORIGINATORS, addresses
from ..header.signatures import is_dkim_signed
from .render import VOLATILE, RenderedMessage, envelope_sender, split

_SIGNED = "is signed with DKIM, and a new Message-ID and Date would break that: retry the email"


def renewed(message: RenderedMessage, *, split_size: int, domain: str = "") -> RenderedMessage:
    """Return the message with a new Message-ID, of this domain or the sender's, and a new Date.

    The arguments are as in `render`. Raises InvalidMessage for a message that is signed with DKIM.
    """
    head, _, body = (message.headers + message.content).partition(b"\r\n\r\n")
    if is_dkim_signed(BytesHeaderParser().parsebytes(head + b"\r\n\r\n")):
        raise InvalidMessage("message", _SIGNED)
    message_id = make_msgid(domain=domain or id_domain(message.sender) or "localhost")
    own = f"Message-ID: {message_id}\r\nDate: {formatdate()}\r\n".encode()
    data = own + VOLATILE.sub(b"", head + b"\r\n") + b"\r\n" + body
    headers, content = split(data, split_size)
    return replace(message, message_id=message_id, headers=headers, content=content)


def own_sender(octets: bytes, reverse_path: str) -> str:
    """Return the sender that a stored message names itself, by which it was given its route.

    The envelope's sender may be for bounces alone. If a header names it, it is the message's own:
    with Flask-Mail it is always the author, also beside a Sender. Raises InvalidMessage.
    """
    head, _, _ = octets.partition(b"\r\n\r\n")
    message = HeaderParser().parsestr(head.decode("utf-8", "replace"))
    named = [one.addr_spec for one in addresses(message, *ORIGINATORS[:2])]
    return reverse_path if reverse_path in named else envelope_sender(message)
