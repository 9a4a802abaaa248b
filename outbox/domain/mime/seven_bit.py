"""Encodes messages in octets under 128: they need no 8BITMIME, and no next hop changes them.

Parts that were made here are encoded at enqueue. Parts that a parser read go as they came. They are
encoded only where a server does not offer 8BITMIME (RFC 6152 §3). Signed parts are never changed.
"""

from __future__ import annotations

import email
from collections.abc import Callable
from email.message import Message
from email.mime.base import MIMEBase
from typing import Any

from ..header.signatures import is_sealed
from .line_endings import fits
from .serialize import flatten
from .structure import declare, encode, is_seven_bit, label, octets, transfer_encoding

_COMPOSITE = ("multipart", "message")
"""RFC 2045 §6.4 forbids encoding parts of these types: the parts within them are encoded."""


def encode_made(message: Message[Any, Any]) -> None:
    """Encode, in place, each part that was made here and holds octets over 127."""
    _encode_all(message, _is_made)


def seven_bit(data: bytes) -> bytes | None:
    """Return a rendered message without octets over 127, or None where that is not possible.

    It may not be changed if it is signed, and cannot be if its headers are in UTF-8. The same
    message gives the same octets each time.
    """
    message = email.message_from_bytes(data)
    if not _encode_all(message, lambda _: True):
        return None
    declare(message)
    written = flatten(message, smtputf8=False)
    return written if written.isascii() and fits(written) else None


def _is_made(part: Message[Any, Any]) -> bool:
    """Whether Python code chose the encoding: in a parsed part each header is a plain `str`."""
    if isinstance(part, MIMEBase):
        return True
    name = "content-transfer-encoding"
    return any(type(value) is not str for key, value in part.raw_items() if key.lower() == name)


def _encode_all(message: Message[Any, Any], chosen: Callable[[Message[Any, Any]], bool]) -> bool:
    """Encode the chosen parts; return whether no part holds octets over 127 afterwards."""
    parts: Any = message.get_payload()
    if is_sealed(message):
        return all(map(is_seven_bit, message.walk()))
    if isinstance(parts, list):
        outcomes = [
            _encode_all(part, chosen) for part in parts
        ]  # all of them, even where one fails
        if not all(outcomes):
            return False
    elif not is_seven_bit(message):
        data = octets(message)
        if data is None or message.get_content_maintype() in _COMPOSITE or not chosen(message):
            return False
        encode(message, data)
        return True
    if transfer_encoding(message) == "8bit" and chosen(message):
        label(message, "7bit")
    return True
