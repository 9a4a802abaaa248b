"""The subject by which a message is found: as a reader sees it, without regard to case."""

from __future__ import annotations

import re
from unicodedata import normalize

from ..header.address import CONTROL
from ..header.encoded_words import as_read
from ..header.fields import LEAKS

MAX_SUBJECT = 200
"""Characters of a subject that are indexed. Nobody types more of it."""

_FIELD = re.compile(rb"^subject:((?:[^\n]*\n[ \t])*[^\n]*)", re.IGNORECASE | re.MULTILINE)
_BLANKS = re.compile(r"\s+")


def read_subject(octets: bytes) -> str | None:
    """Return the subject of a message's octets as a reader sees it, or None without the header."""
    end = 0 if octets.startswith(b"\r\n") else octets.find(b"\r\n\r\n")
    found = _FIELD.search(octets, 0, end if end >= 0 else len(octets))
    if found is None:
        return None
    text = found[1].decode("utf-8", "replace").replace("\r\n", "").strip()
    if "=?" not in text:
        return text
    try:
        return as_read(text)
    except LEAKS:  # an unknown charset: the text as it is
        return text


def folded_subject(text: str) -> str:
    """Return the form in which subjects are stored and compared, cut to MAX_SUBJECT characters.

    Letters of either case are alike, and so are blanks and control characters in any number.
    """
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip().lower()[:MAX_SUBJECT]
    plain = _BLANKS.sub(" ", CONTROL.sub(" ", text)).strip()
    return normalize("NFC", normalize("NFC", plain).casefold())[:MAX_SUBJECT].rstrip()
