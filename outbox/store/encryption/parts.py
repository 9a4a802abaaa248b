"""The parts of an email that are encrypted, and what each is bound to.

An email's own headers and values are encrypted together, and are bound to its Message-ID. So is
the content of an email that has no headers apart, because no other email has that content. A part
that somebody put into another email's row is not decrypted. A content that emails share is bound to
none of them.

All parts of an email have the key of its content, which the content's row names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...domain.message.merge_template import Template, merged
from .cipher import Cipher, Part

IN_HEADERS = ""
"""Stands in the place of values that are encrypted together with the headers."""

# Read once: before Python 3.12 it takes long to read a member from its enumeration.
_HEADERS, _MERGED = Part.HEADERS, Part.MERGED

_BREAK = b"\0"
"""No header may have a NUL."""


class Content(NamedTuple):
    """A content: octets, and the key with which they are or were encrypted; None: in clear."""

    octets: bytes
    key_id: str | None


def owner_of(headers: bytes, message_id: str) -> str:
    """Return the Message-ID of the only email that has this content, or "" if it may be shared.

    The headers are the email's own ones, in clear or encrypted: either both are empty, or none is.
    """
    return "" if headers else message_id


def seal_own(
    cipher: Cipher, headers: bytes, merge: str | None, message_id: str
) -> tuple[bytes, str | None]:
    """Return the email's own headers, and the reader's values if there are any, as they are stored.

    If both are encrypted, the values stand behind the headers, and an empty text in their place.
    """
    if cipher.key_id is None or not headers:
        return headers, merge
    if merge is None:
        return cipher.seal(_HEADERS, headers, message_id), None
    return cipher.seal(_MERGED, headers + _BREAK + merge.encode(), message_id), IN_HEADERS


def seal_content(cipher: Cipher, octets: bytes, owner: str) -> Content:
    """Return a content as it is stored."""
    return Content(cipher.seal(Part.CONTENT, octets, owner), cipher.key_id)


def open_own(
    cipher: Cipher, key_id: str | None, headers: bytes, merge: str | None, message_id: str
) -> tuple[bytes, str | None]:
    """Return the email's own headers and the reader's values in clear.

    Raises MissingKey and ValueError.
    """
    if key_id is None or not headers:
        return headers, merge
    if merge is None:
        return cipher.open(key_id, Part.HEADERS, headers, message_id), None
    opened = cipher.open(key_id, Part.MERGED, headers, message_id)
    found, _, values = opened.partition(_BREAK)
    return found, values.decode()


def open_content(cipher: Cipher, stored: Content, owner: str) -> Content:
    """Return a content in clear. Raises MissingKey and ValueError."""
    octets = cipher.open(stored.key_id, Part.CONTENT, stored.octets, owner)
    return Content(octets, stored.key_id)


def in_clear(cipher: Cipher, email: Any, stored: Content) -> bytes:
    """Return the octets of one email as they are sent, from its row and its content.

    Raises MissingKey and ValueError. A worker has `ContentReader`, which decrypts a content once.
    """
    key_id, message_id = stored.key_id, email.message_id
    body = open_content(cipher, stored, owner_of(email.headers, message_id)).octets
    headers, values = open_own(cipher, key_id, email.headers, email.merge, message_id)
    return headers + (body if values is None else merged(Template(body), values))
