"""MIME structure: boundaries that repeat, lines that fit, signed parts that stay as they are."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from email.encoders import encode_base64, encode_quopri
from email.message import Message
from typing import Any

from .wire import fits

_IDENTITIES = ("7bit", "8bit", "binary")
"""Transfer encodings that encode nothing (RFC 2045 §6.2)."""
_SIGNED = "multipart/signed"


def detached(message: Message[Any, Any]) -> Message[Any, Any]:
    """Return a copy whose headers, and those of its parts, can be set beside the original's.

    The texts and attachments are the same objects: they are only read.
    """
    twin = copy.copy(message)
    del twin[""]  # CPython makes a new list of headers for this, and only then
    parts: Any = message.get_payload()
    if isinstance(parts, list):
        twin.set_payload([detached(part) for part in parts])
    return twin


def set_boundaries(message: Message[Any, Any]) -> None:
    """Give every multipart that has none a boundary made from the contents.

    The same mail then renders to the same bytes, which a keyed enqueue and the reuse of contents
    need. No author of a text can put its own boundary in it: it is a digest of that text.
    """
    bare = [part for part in message.walk() if _is_bare(part)]
    if not bare:
        return
    digest = hashlib.sha256()
    for part in message.walk():
        if not part.is_multipart():
            digest.update(str(part.get_payload()).encode("utf-8", "surrogatepass") + b"\0")
    for number, part in enumerate(bare):
        part.set_boundary(f"=_{digest.hexdigest()[:40]}_{number}")


def _is_bare(part: Message[Any, Any]) -> bool:
    """Of a multipart whose boundary no parser found the payload is a text, written as it is."""
    return (
        part.get_content_maintype() == "multipart"
        and not part.get_boundary()
        and not isinstance(part.get_payload(), str)
    )


def is_signed(message: Message[Any, Any]) -> bool:
    """Return whether a part of the message carries a signature over another part."""
    return any(part.get_content_type() == _SIGNED for part in message.walk())


def _unsigned(message: Message[Any, Any]) -> Iterator[Message[Any, Any]]:
    if message.get_content_type() == _SIGNED:
        return
    yield message
    parts: Any = message.get_payload()
    if isinstance(parts, list):
        for part in parts:
            yield from _unsigned(part)


def encoded(message: Message[Any, Any]) -> Message[Any, Any]:
    """Return a copy in which every part that does not fit the wire as it is, is encoded.

    But for what is signed: encoding it would break the signature (RFC 1847 §2.1).
    """
    message = copy.deepcopy(message)
    for part in _unsigned(message):
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        if not isinstance(payload, bytes) or fits(payload):
            continue
        if str(part.get("Content-Transfer-Encoding", "7bit")).lower() not in _IDENTITIES:
            continue
        del part["Content-Transfer-Encoding"]
        part.set_payload(payload)
        (encode_quopri if part.get_content_maintype() == "text" else encode_base64)(part)
    return message
