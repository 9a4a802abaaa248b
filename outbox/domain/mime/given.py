"""A signed message that is read from octets: what its signature covers is written as it stood."""

from __future__ import annotations

from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Any

from ..errors import InvalidMessage
from ..header.fields import LEAKS
from ..header.signatures import is_blank_signed, is_sealed, is_signed_type
from .line_endings import normalise, unix
from .serialize import Given, flatten
from .structure import octets


def read(data: bytes) -> Message[Any, Any]:
    """Return the message. Raises InvalidMessage where writing it would break a signature.

    A parser forgets how many blanks stood behind a header's colon, also in a signed part.
    """
    message = message_from_bytes(data, Given)
    if is_blank_signed(message) and not _begins_as_written(message, data):
        rule = "has a header that does not begin as `Name: value`, and a DKIM signature over that"
        raise InvalidMessage("message", f"{rule}: write one blank, or sign with c=relaxed")
    if is_sealed(message):
        message.body = octets(BytesHeaderParser().parsebytes(data))
    else:
        _refuse_rewriting(message, normalise(data))
    return message


def _begins_as_written(message: Message[Any, Any], data: bytes) -> bool:
    fields = "".join(f"{name}: {value}\n" for name, value in message.raw_items())
    return unix(data).startswith(unix(fields.encode("ascii", "surrogateescape")))


def _refuse_rewriting(part: Message[Any, Any], data: bytes) -> None:
    """Refuse a message in which a signed part would be written otherwise than in `data`.

    Nobody verifies the DKIM signature of a message that is attached.
    """
    if not is_signed_type(part):
        within: Any = part.get_payload() if part.is_multipart() else ()
        for one in within:
            _refuse_rewriting(one, data)
        return
    body = b""
    with suppress(*LEAKS):  # what cannot be written is refused later, by its name
        body = flatten(part, smtputf8=False).partition(b"\r\n\r\n")[2].rstrip(b"\r\n")
    if body not in data:
        rule = "has a signed part that would be written otherwise, and that breaks its signature"
        remedy = "begin each header there as `Name: value`, with one blank, before you sign"
        raise InvalidMessage("message", f"{rule}: {remedy}")
