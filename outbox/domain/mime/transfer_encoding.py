"""Transfer encodings (RFC 2045 §6): octets over 127 in octets that every server takes."""

from __future__ import annotations

from base64 import encodebytes
from binascii import b2a_qp

from .line_endings import unix

IDENTITIES = ("7bit", "8bit", "binary")
"""Transfer encodings that encode nothing (RFC 2045 §6.2)."""

Encoded = tuple[str, bytes]
"""The name of a transfer encoding, and the octets in it, with bare LF as line ends."""


def encoded_text(text: bytes) -> Encoded:
    """Return a text in quoted-printable or in base64, whichever is shorter on the wire.

    The text may have any line ends; a receiver gets CRLF (RFC 2046 §4.1.1).
    """
    lines = unix(text)
    quoted = b2a_qp(lines)
    size = len(lines) + lines.count(b"\n")
    if len(quoted) + quoted.count(b"\n") <= _base64_size(size) and not _has_delimiter(
        quoted, lines
    ):
        return "quoted-printable", quoted
    return encoded_file(lines.replace(b"\n", b"\r\n"))


def encoded_file(data: bytes) -> Encoded:
    """Return octets in base64; line ends are not changed."""
    return "base64", encodebytes(data)


def _base64_size(size: int) -> int:
    """Return the octets in base64: four for three, and two more at the end of each line of 76."""
    octets = -(-size // 3) * 4
    return octets + -(-octets // 76) * 2


def _has_delimiter(quoted: bytes, lines: bytes) -> bool:
    """Return whether a soft line break made a line that could be a multipart's boundary."""
    return quoted.count(b"\n--") != lines.count(b"\n--")
