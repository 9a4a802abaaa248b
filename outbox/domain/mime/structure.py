"""MIME structure: reproducible boundaries, lines that fit, signed parts that stay as they are."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from email.message import Message
from typing import Any

from ..header.signatures import is_sealed
from .line_endings import fits
from .transfer_encoding import IDENTITIES, encoded_file, encoded_text


def detached(message: Message[Any, Any]) -> Message[Any, Any]:
    """Return a copy. Setting its headers, or its parts' headers, does not change the original's.

    The texts and attachments are the same objects: they are only read.
    """
    twin = copy.copy(message)
    del twin[""]  # only this makes CPython give the copy its own list of headers
    parts: Any = message.get_payload()
    if isinstance(parts, list):
        twin.set_payload([detached(part) for part in parts])
    return twin


def set_boundaries(message: Message[Any, Any]) -> None:
    """Give every multipart that has none a boundary made from the contents.

    The same email then renders to the same bytes, which a keyed enqueue and the reuse of contents
    need. No author can put the boundary in a text, because it is a digest of that text. None begins
    with another one: some readers compare no more of a line (RFC 2046 §5.1.1).
    """
    bare = [part for part in message.walk() if _is_bare(part)]
    if not bare:
        return
    digest = hashlib.sha256()
    for part in message.walk():
        if not part.is_multipart():
            digest.update(str(part.get_payload()).encode("utf-8", "surrogatepass") + b"\0")
    width = len(str(len(bare) - 1))
    for number, part in enumerate(bare):
        part.set_boundary(f"=_{digest.hexdigest()[:40]}_{number:0{width}}")


def _is_bare(part: Message[Any, Any]) -> bool:
    """Return whether a multipart needs a boundary.

    Where a parser did not find its boundary, the payload is a text, which is written as it is.
    """
    return (
        part.get_content_maintype() == "multipart"
        and not part.get_boundary()
        and not isinstance(part.get_payload(), str)
    )


def encoded(message: Message[Any, Any]) -> Message[Any, Any]:
    """Return a copy in which every part that does not fit the wire is encoded.

    Signed parts are left as they are: encoding would break the signature (RFC 1847 §2.1).
    """
    message = copy.deepcopy(message)
    for part in _unsigned(message):
        data = octets(part)
        if data is not None and not fits(data):
            encode(part, data)
            declare(message)
    return message


def _unsigned(message: Message[Any, Any]) -> Iterator[Message[Any, Any]]:
    if is_sealed(message):
        return
    yield message
    parts: Any = message.get_payload()
    if isinstance(parts, list):
        for part in parts:
            yield from _unsigned(part)


def octets(part: Message[Any, Any]) -> bytes | None:
    """Return what a part holds, as it is; None where it holds parts, or is encoded already."""
    payload = _as_written(part)
    if payload is None or transfer_encoding(part) not in IDENTITIES:
        return None
    try:
        return payload.encode("ascii", "surrogateescape")
    except UnicodeEncodeError:
        return None  # its charset is not known: the generator refuses it


def is_seven_bit(part: Message[Any, Any]) -> bool:
    """Return whether this part's own octets, without those of inner parts, are under 128."""
    return (_as_written(part) or "").isascii()


def _as_written(part: Message[Any, Any]) -> str | None:
    """Return the payload with surrogates for octets over 127; `get_payload` would decode them."""
    payload = vars(part).get("_payload")
    return payload if isinstance(payload, str) else None


def transfer_encoding(part: Message[Any, Any]) -> str:
    """Return the name of the part's transfer encoding (RFC 2045 §6.1), in lower case."""
    return str(part.get("Content-Transfer-Encoding", "7bit")).strip().lower()


def encode(part: Message[Any, Any], data: bytes) -> None:
    """Encode a part's octets: a text in the shorter encoding, all else in base64."""
    name, written = encoded_text(data) if _has_lines(part) else encoded_file(data)
    part.set_payload(written.decode("ascii"))
    label(part, name)


def declare(message: Message[Any, Any]) -> None:
    """Say that the message is MIME: without that a receiver need not decode it (RFC 2045 §4)."""
    if "MIME-Version" not in message:
        message["MIME-Version"] = "1.0"


def _has_lines(part: Message[Any, Any]) -> bool:
    """Return whether an octet can be a line end: in UTF-16 and UTF-32 no single octet is one."""
    wide = (part.get_content_charset() or "").startswith(("utf-16", "utf-32"))
    return part.get_content_maintype() == "text" and not wide


def label(part: Message[Any, Any], encoding: str) -> None:
    """Set the header with the part's transfer encoding, in its old place where it has one."""
    if "Content-Transfer-Encoding" in part:
        part.replace_header("Content-Transfer-Encoding", encoding)
    else:
        part["Content-Transfer-Encoding"] = encoding
