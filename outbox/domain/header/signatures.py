"""Signed messages and parts, which must stay as they are."""

from __future__ import annotations

import re
from email.message import Message
from typing import Any

from ..errors import InvalidMessage

_TYPES = frozenset({"multipart/signed", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_SEALS = ("DKIM-Signature", "ARC-Message-Signature")
_RELAXED = re.compile(r"(?:^|;)\s*c\s*=\s*relaxed\b")


def is_sealed(part: Message[Any, Any]) -> bool:
    """Return whether a signature covers the whole of this part: PGP/MIME, S/MIME, DKIM or ARC.

    RFC 1847 §2.1, RFC 8551 §3, RFC 6376 §5.3 and RFC 8617 §4.1.2.
    """
    return is_signed_type(part) or is_dkim_signed(part)


def is_signed_type(part: Message[Any, Any]) -> bool:
    """Return whether the part's type says that it is signed: then its readers verify it."""
    return part.get_content_type() in _TYPES


def is_dkim_signed(message: Message[Any, Any]) -> bool:
    """Return whether a header of the message signs its content, and other headers with it."""
    return any(name in message for name in _SEALS)


def is_blank_signed(message: Message[Any, Any]) -> bool:
    """Return whether a signature covers each blank in the headers: the default (RFC 6376 §3.4)."""
    seals = [seal for name in _SEALS for seal in message.get_all(name, [])]
    return not all(_RELAXED.search(str(seal)) for seal in seals)


def refuse_mending(message: Message[Any, Any], *names: str) -> None:
    """Raise InvalidMessage where a signed header would be changed: `names`, or one not in ASCII.

    A header object that Python code made defines its encoded form, and is signed in that form.
    """
    if not is_dkim_signed(message):
        return
    raw = [
        name for name, value in message.raw_items() if type(value) is str and not value.isascii()
    ]
    for name in (*names, *raw):
        rule = "would be encoded, and that breaks its DKIM signature: encode it before you sign"
        raise InvalidMessage(name.lower(), f"{rule} (RFC 6376 §5.3)")


def is_signed(message: Message[Any, Any]) -> bool:
    """Return whether the message, or a part of it, is signed."""
    return any(map(is_sealed, message.walk()))
