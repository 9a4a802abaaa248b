"""MIME parameters (RFC 2045 §5.1), also with long or international values (RFC 2231)."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import quote as quoted
from urllib.parse import quote as percent_encoded

from ..header.fields import FOLD_AT
from .line_endings import MAX_TEXT_LINE


def with_parameter(header: str, value: str, name: str, text: str) -> str:
    """Return a header's value with one more parameter, folded where a line would be too long.

    Every mail program reads a quoted text in ASCII, so it stays whole up to the longest legal line.
    Other texts are in UTF-8, in pieces of whole characters (RFC 2231 §3), because some programs
    decode each piece alone. So are texts that look like an encoded word, because some programs
    decode it in quotes too.
    """
    plain = f'{value}; {name}="{quoted(text)}"'
    if text.isascii() and "=?" not in text and len(header) + 2 + len(plain) <= MAX_TEXT_LINE:
        return plain
    whole = f"{name}*=utf-8''{percent_encoded(text, safe='')}"
    if len(header) + 2 + len(value) + 2 + len(whole) <= FOLD_AT:
        return f"{value}; {whole}"
    return ";\r\n ".join([value, *_pieces(name, text)])


def _pieces(name: str, text: str) -> Iterator[str]:
    """Yield parameters that each fit on a line, with the blank before and the semicolon behind."""
    number, piece = 0, f"{name}*0*=utf-8''"
    for character in text:
        encoded = percent_encoded(character, safe="")
        if 1 + len(piece) + len(encoded) + 1 > FOLD_AT:
            yield piece
            number += 1
            piece = f"{name}*{number}*="
        piece += encoded
    yield piece
