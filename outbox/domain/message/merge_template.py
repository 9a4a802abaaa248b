"""A content with merge fields: one template for many readers, and its octets for each of them.

A template is stored like any other content. In it, octets that are the same for every reader take
turns with lines of text that hold a field. A NUL separates them, because no message may have one. A
line with a field is kept as it was written, behind a letter that says whether values are escaped.
So a reader's octets depend only on the template and the reader's values, and are the same at every
attempt.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_qp
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

PLAIN, HTML = "t", "h"
"""The letter that a line begins with: in a line of HTML values are escaped."""
TAG = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")

_LINE = 76
_AS_IT_IS = re.compile("[ -<>-~]{0,75}[!-<>-~]")
"""A line that is the same in quoted-printable (RFC 2045 §6.7)."""
_IN_ITSELF = re.compile("[ !#-%(-;?-~]*[!#-%(-;?-~]")
"""A value that stays as it is in a line of quoted-printable, and in HTML."""

_READ = json.JSONDecoder().raw_decode


class Template:
    """A template that was read from its octets."""

    def __init__(self, octets: bytes) -> None:
        pieces = octets.split(b"\0")
        lines = [piece.decode() for piece in pieces[1::2]]
        found = [TAG.split(line[1:]) for line in lines]
        self.names = tuple(dict.fromkeys(name for line in found for name in line[1::2]))
        place = {name: place for place, name in enumerate(self.names)}
        self._pieces = pieces
        self._lines = [
            _Line(line[:1] == HTML, tuple(texts), tuple(place[name] for name in texts[1::2]))
            for line, texts in zip(lines, found, strict=True)
        ]
        self._plain = _Plain(pieces, self._lines) if all(map(_Line.is_plain, self._lines)) else None

    def render(self, values: Sequence[str]) -> bytes:
        """Return the content of the reader whose fields have these values, in the names' order."""
        if self._plain is not None and self._plain.suits(values):
            return self._plain.render(values)
        whole = list(self._pieces)
        whole[1::2] = [line.render(values) for line in self._lines]
        return b"".join(whole)


class _Plain:
    """A template whose lines need no encoding when short plain values stand in them.

    Most templates are like this, and are rendered in a third of the time.
    """

    def __init__(self, pieces: Sequence[bytes], lines: Sequence[_Line]) -> None:
        self._texts = [pieces[0]]  # what stands between the fields
        self._places: list[int] = []
        self._room: list[tuple[int, tuple[int, ...]]] = []
        for line, behind in zip(lines, pieces[2::2], strict=True):
            first, *texts = [text.encode() for text in line.pieces[::2]]
            self._texts[-1] += first
            self._texts += texts
            self._texts[-1] += behind
            self._places += line.places
            self._room.append((_LINE - len("".join(line.pieces[::2])), line.places))

    def suits(self, values: Sequence[str]) -> bool:
        """Return whether no line has to be encoded or broken."""
        if not all(map(_IN_ITSELF.fullmatch, values)):
            return False
        for room, places in self._room:
            for place in places:
                room -= len(values[place])
            if room < 0:
                return False
        return True

    def render(self, values: Sequence[str]) -> bytes:
        whole = [b""] * (2 * len(self._places) + 1)
        whole[::2] = self._texts
        whole[1::2] = [values[place].encode() for place in self._places]
        return b"".join(whole)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text with fields."""

    is_html: bool
    pieces: tuple[str, ...]  # texts and names of fields take turns
    places: tuple[int, ...]  # of the fields among the values

    def is_plain(self) -> bool:
        """Return whether the texts between its fields are the same in quoted-printable."""
        return _AS_IT_IS.fullmatch("x".join(self.pieces[::2])) is not None

    def render(self, values: Sequence[str]) -> bytes:
        found = [values[place] for place in self.places]
        text = filled(self.pieces, [escape(value) for value in found] if self.is_html else found)
        if _AS_IT_IS.fullmatch(text):  # most do, in a quarter of the time
            return text.encode()
        return quoted_printable(text).replace(b"\n", b"\r\n")


def filled(pieces: Sequence[str], values: Sequence[str]) -> str:
    whole = list(pieces)
    whole[1::2] = values
    return "".join(whole)


def quoted_printable(text: str) -> bytes:
    """Return a text in quoted-printable, line by line, with at most 76 characters in a line.

    The source is RFC 2045 §6.7.
    """
    lines = [b2a_qp(line.encode(), quotetabs=False, istext=True) for line in text.split("\n")]
    return b"\n".join(lines)


def merged(template: Template, stored: str) -> bytes:
    """Return a reader's content from the stored values; raise ValueError where they do not fit.

    It is the content that `merge_fields.Merge.of` returned for these values.
    """
    values, end = _READ(stored)
    if end != len(stored) or not isinstance(values, list) or len(values) != len(template.names):
        raise ValueError("the values must be a list with one text for each field")
    try:
        return template.render(values)
    except (TypeError, AttributeError):
        raise ValueError("the values must be texts") from None
