"""What a message says, taken apart from the octets that were sent."""

from __future__ import annotations

from dataclasses import dataclass

from ....domain.mime.reading import body_text, file_name, header_text, parsed


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
        message = parsed(octets)
        return cls(
            headers=tuple((name, header_text(name, raw)) for name, raw in message.raw_items()),
            text=body_text(message, "plain"),
            html=body_text(message, "html"),
            files=tuple(name for name in map(file_name, message.walk()) if name),
        )
