"""Makes a new message of an email: the same content, with a Message-ID and Date of its own."""

from __future__ import annotations

from dataclasses import replace
from email.parser import BytesHeaderParser
from email.utils import formatdate, make_msgid

from ..errors import InvalidMessage
from ..header.address import id_domain
from ..header.signatures import is_dkim_signed
from .render import VOLATILE, RenderedMessage, split

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
