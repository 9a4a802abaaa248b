"""What a message says, taken apart from the octets that were sent."""

from __future__ import annotations

from dataclasses import dataclass
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from typing import Any

_UNREADABLE = (MessageError, LookupError, ValueError, TypeError, AttributeError)
"""What Python's parser raises for headers and charsets that it does not know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageText:
    """The headers and texts of a message. Of its files there are the names."""

    headers: tuple[tuple[str, str], ...]  # decoded
    text: str | None
    html: str | None
    files: tuple[str, ...]

    @classmethod
    def of(cls, octets: bytes) -> MessageText:
        """Read a message; what cannot be decoded is given as it is."""
        message = message_from_bytes(octets, policy=policy.default)
        names = (part.get_filename() for part in message.walk())
        return cls(
            headers=tuple((name, _header(message, name, raw)) for name, raw in message.raw_items()),
            text=_body(message, "plain"),
            html=_body(message, "html"),
            files=tuple(name for name in names if name),
        )


def _header(message: EmailMessage, name: str, raw: Any) -> str:
    try:
        return str(message.policy.header_fetch_parse(name, raw))
    except _UNREADABLE:
        return str(raw)


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body((kind,))
    if part is None:
        return None
    try:
        return str(part.get_content()).replace("\r\n", "\n")
    except _UNREADABLE:
        content: Any = part.get_payload(decode=True) or b""
        return str(content.decode("utf-8", "replace"))
