"""Reads a text that a user gave, and refuses what could begin another header."""

from __future__ import annotations

from ...domain.errors import InvalidMessage
from ...domain.header.address import CONTROL


def as_text(field: str, value: object) -> str:
    """Return the text; refuse bytes, which str() would print as a literal.

    str() also resolves lazy translations.
    """
    if isinstance(value, (bytes, bytearray)):
        raise InvalidMessage(field, "must be text, not bytes")
    return str(value)


def clean(field: str, value: object) -> str:
    """Return the text; refuse control characters, which could begin another header."""
    if not isinstance(value, str):
        raise InvalidMessage(field, "must be text")
    if CONTROL.search(value):
        raise InvalidMessage(field, "must not contain control characters or line breaks")
    return value
