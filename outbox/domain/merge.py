"""A content with merge fields: one template for many readers, and what it is for each of them.

A template is stored as any content is. In it the octets that are the same for every reader take
turns with lines of text that hold a field, with a NUL between them: no message may have one. Such a
line is kept as it was written, behind a letter that says how values are escaped. So the octets of a
reader's email follow from the template and the reader's values alone, at every try.
"""

from __future__ import annotations

import hashlib
import json
import re
from binascii import b2a_qp
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.header import decode_header, make_header
from email.message import Message
from html import escape
from typing import Any

from . import mime
from .address import CONTROL
from .errors import InvalidMessage
from .headers import LEAKS, MAX_HEADER
from .octets import encoded_words, folded
from .signed import is_signed

FieldsOf = Callable[[Any], Mapping[str, object]]
"""Makes the values of one reader's fields, by their names, from the reader's address."""

MAX_VALUES = 16_000
"""Characters of a reader's values in all, as JSON: a column of MariaDB holds 65,535 octets."""

_TAG = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
_FORBIDDEN = re.compile(CONTROL.pattern.replace("\\x00-\\x1f", "\\x00-\\x08\\x0b-\\x1f"))
_BREAK = re.compile(r"\r\n?")
_PLAIN, _HTML = "t", "h"


class Template:
    """A template that was read from its octets."""

    def __init__(self, octets: bytes) -> None:
        pieces = octets.split(b"\0")
        self._common = pieces[::2]
        self._lines = [_Line.read(piece) for piece in pieces[1::2]]
        found = (name for line in self._lines for name in line.names)
        self.names = tuple(dict.fromkeys(found))

    def render(self, values: Mapping[str, str]) -> bytes:
        """Return the content of the reader who has these values; KeyError where one is missing."""
        whole = [self._common[0]]
        for line, common in zip(self._lines, self._common[1:], strict=True):
            whole.append(line.render(values))
            whole.append(common)
        return b"".join(whole)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text with fields."""

    kind: str
    pieces: tuple[str, ...]  # by turns a text and the name of a field

    @classmethod
    def read(cls, octets: bytes) -> _Line:
        text = octets.decode()
        return cls(text[:1], tuple(_TAG.split(text[1:])))

    @property
    def names(self) -> tuple[str, ...]:
        return self.pieces[1::2]

    def render(self, values: Mapping[str, str]) -> bytes:
        found = [values[name] for name in self.names]
        written = [escape(value) for value in found] if self.kind == _HTML else found
        return quoted_printable(_filled(self.pieces, written)).replace("\n", "\r\n").encode()


def _filled(pieces: Sequence[str], values: Sequence[str]) -> str:
    whole = list(pieces)
    whole[1::2] = values
    return "".join(whole)


def quoted_printable(text: str) -> str:
    """Return a text in lines of at most 76 characters (RFC 2045 §6.7), each by itself."""
    return "\n".join(
        b2a_qp(line.encode(), quotetabs=False, istext=True).decode() for line in text.split("\n")
    )


@dataclass(frozen=True)
class Merge:
    """A message with fields: its template, its subject where that has fields, and their values."""

    template: Template
    subject: tuple[str, ...]  # as the pieces of a line; empty where the content has the subject
    fields_of: FieldsOf
    names: tuple[str, ...]

    def of(self, reader: object) -> tuple[bytes, bytes, str]:
        """Return a reader's own header lines, content, and values as they are stored.

        Raises InvalidMessage for a value that is missing, or can be none.
        """
        given = self.fields_of(reader)
        if not isinstance(given, Mapping):
            raise InvalidMessage("fields", "must give a mapping of names to values")
        values = {name: _value(name, given) for name in self.names}
        stored = json.dumps([values[name] for name in self.template.names], ensure_ascii=False)
        if len(stored) > MAX_VALUES:
            raise InvalidMessage("fields", f"have at most {MAX_VALUES} characters in all")
        return self._subject(values), self.template.render(values), stored

    def _subject(self, values: Mapping[str, str]) -> bytes:
        if not self.subject:
            return b""
        text = _filled(self.subject, [values[name] for name in self.subject[1::2]])
        if CONTROL.search(text):
            raise InvalidMessage("subject", "must not contain control characters or line breaks")
        if len(text) > MAX_HEADER:
            raise InvalidMessage("subject", f"has more than {MAX_HEADER} characters")
        # An encoded word that a value brings along is to be read as it was typed (RFC 2047 §5).
        is_plain = text.isascii() and "=?" not in text
        return (
            f"Subject: {folded('Subject', text) if is_plain else encoded_words(text)}\r\n".encode()
        )


def merged(template: Template, stored: str) -> bytes:
    """Return the content of the reader whose values were stored; ValueError where they do not fit.

    It is what `Merge.of` returned for them.
    """
    values = json.loads(stored)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("values are a list of texts")
    return template.render(dict(zip(template.names, values, strict=True)))


def _value(name: str, given: Mapping[str, object]) -> str:
    value = given.get(name)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        reason = "is missing" if value is None else "must be a text or a whole number"
        raise InvalidMessage("fields", f"the field {name} {reason}")
    text = _BREAK.sub("\n", str(value))
    if _FORBIDDEN.search(text):
        raise InvalidMessage("fields", f"the field {name} must not contain control characters")
    return text


@dataclass
class Draft:
    """A message on its way to a template: marks stand where lines with fields will."""

    message: Message[Any, Any]
    subject: tuple[str, ...] = ()
    lines: dict[bytes, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, message: Message[Any, Any]) -> Draft:
        """Take the fields out of a message's texts and subject. Raises InvalidMessage."""
        if is_signed(message):
            raise InvalidMessage("fields", "a signed message cannot be filled in (RFC 1847 §2.1)")
        draft = cls(mime.detached(message))
        texts = list(_texts(draft.message))
        digest = hashlib.sha256("\0".join(text for _, text in texts).encode("utf-8", "replace"))
        for part, text in texts:
            if "{{" in text:
                draft._take(part, text, digest.hexdigest()[:32])
        for name, given in message.items():
            value = _read(name, given)
            if name.lower() == "subject" and "{{" in value:
                draft.subject = _pieces(value)
            elif _TAG.search(value):
                rule = f"are filled in in texts and the subject only, and not in {name}"
                raise InvalidMessage("fields", rule)
        if draft.subject:
            del draft.message["Subject"]
        return draft

    def _take(self, part: Message[Any, Any], text: str, digest: str) -> None:
        kind = _HTML if part.get_content_subtype() == "html" else _PLAIN
        lines = list[str]()
        for line in _BREAK.sub("\n", text).split("\n"):
            if "{{" not in line:
                lines.append(quoted_printable(line))
                continue
            _pieces(line)
            mark = f"merge-{len(self.lines)}-{digest}"
            self.lines[mark.encode()] = (kind + line).encode()
            lines.append(mark)
        part.set_payload("\n".join(lines))
        del part["Content-Transfer-Encoding"]
        part["Content-Transfer-Encoding"] = "quoted-printable"
        part.set_param("charset", "utf-8")

    def finish(self, octets: bytes, fields_of: FieldsOf) -> tuple[bytes, Merge]:
        """Return the template of the rendered message, and what makes readers' contents of it."""
        for mark, line in self.lines.items():
            octets = octets.replace(mark, b"\0" + line + b"\0")
        template = Template(octets)
        names = tuple(dict.fromkeys((*self.subject[1::2], *template.names)))
        if not names:
            raise InvalidMessage("fields", "the message has none: {{ name }} is one")
        return octets, Merge(template, self.subject, fields_of, names)


def _read(name: str, value: object) -> str:
    """Return a header as a reader is shown it: a field may stand in an encoded word."""
    text = str(value)
    if "=?" not in text:
        return text
    try:
        return str(make_header(decode_header(text)))
    except LEAKS as error:
        reason = f"cannot be read ({type(error).__name__})"
        raise InvalidMessage(name.lower(), reason) from None


def _pieces(line: str) -> tuple[str, ...]:
    pieces = tuple(_TAG.split(line))
    if any("{{" in text for text in pieces[::2]):
        rule = "a field is {{ name }}, on one line, of ASCII letters, digits and _"
        raise InvalidMessage("fields", rule)
    return pieces


def _texts(message: Message[Any, Any]) -> Iterator[tuple[Message[Any, Any], str]]:
    """Yield the texts that a reader is shown: no attachments."""
    for part in message.walk():
        is_text = part.get_content_maintype() == "text" and not part.is_multipart()
        if not is_text or part.get_filename() or part.get_content_disposition() == "attachment":
            continue
        yield part, _decoded(part)


def _decoded(part: Message[Any, Any]) -> str:
    octets = part.get_payload(decode=True)
    charset = str(part.get_content_charset("utf-8"))
    try:
        return octets.decode(charset) if isinstance(octets, bytes) else str(octets)
    except (UnicodeError, LookupError):
        raise InvalidMessage("fields", f"a text is not in its charset, {charset[:40]}") from None
