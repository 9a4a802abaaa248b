"""Merge fields at enqueue: which lines of a message have them, and each reader's values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Literal

from ..errors import InvalidMessage
from ..header.address import CONTROL
from ..header.charsets import is_for_hosts
from ..header.encoded_words import as_read, encoded_words
from ..header.fields import LEAKS, MAX_HEADER, unfolded
from ..header.signatures import is_sealed
from ..mime import structure
from ..mime.line_endings import has_long_line
from ..mime.serialize import folded
from .merge_template import HTML, PLAIN, TAG, Template, filled, quoted_printable

FieldsOf = Callable[[Any], Mapping[str, object]]
"""Returns the values of one reader's fields, by the fields' names, for the reader's address."""

Fields = FieldsOf | Literal[False] | None
"""What a user gives: a function, or False for a message in which `{{ name }}` is meant so."""

MAX_VALUES = 16_000
"""Characters of a reader's values in all, as JSON: a column of MariaDB holds 65,535 octets."""

_FORBIDDEN = re.compile(CONTROL.pattern.replace("\\x00-\\x1f", "\\x00-\\x08\\x0b-\\x1f"))
_BREAK = re.compile(r"\r\n?")
_MARKUP = re.compile(r"html|x-amp-html|xml|.*\+xml")
"""Subtypes of text in which values are escaped. In `plain` they are not; others are refused."""


@dataclass(frozen=True)
class Merge:
    """A message with fields: its template, its subject where that has fields, and their values."""

    template: Template
    subject: tuple[str, ...]  # as the pieces of a line; empty where the content has the subject
    fields_of: FieldsOf
    names: tuple[str, ...]
    max_size: int

    @property
    def subject_shown(self) -> str:
        """The subject with its fields as they are written; empty where the content has it."""
        return filled(self.subject, [f"{{{{ {name} }}}}" for name in self.subject[1::2]])

    def of(self, reader: object) -> tuple[bytes, bytes, str]:
        """Return a reader's own header lines, content, and values as they are stored.

        Raises InvalidMessage for a value that is missing or not allowed.
        """
        given = self.fields_of(reader)
        if not isinstance(given, Mapping):
            raise InvalidMessage("fields", "the function must return a mapping of names to values")
        values = {name: _value(name, given) for name in self.names}
        shown = [values[name] for name in self.template.names]
        stored = json.dumps(shown, ensure_ascii=False)
        if len(stored) > MAX_VALUES:
            raise InvalidMessage("fields", f"have at most {MAX_VALUES} characters in all")
        content = self.template.render(shown)
        if len(content) > self.max_size:
            rule = f"the content has {len(content)} bytes; OUTBOX_MAX_SIZE allows {self.max_size}"
            raise InvalidMessage("fields", rule)
        return self._subject(values), content, stored

    def _subject(self, values: Mapping[str, str]) -> bytes:
        if not self.subject:
            return b""
        text = filled(self.subject, [values[name] for name in self.subject[1::2]])
        if CONTROL.search(text):
            raise InvalidMessage("subject", "must not contain control characters or line breaks")
        if len(text) > MAX_HEADER:
            raise InvalidMessage("subject", f"has more than {MAX_HEADER} characters")
        # An encoded word in a value must be shown as it was typed (RFC 2047 §5).
        is_plain = text.isascii() and "=?" not in text
        header = f"Subject: {folded('Subject', text) if is_plain else encoded_words(text)}\r\n"
        if has_long_line(header.encode()):
            raise InvalidMessage("subject", "has a line over 998 octets (RFC 5322 §2.1.1)")
        return header.encode()


def check_fields(fields: object) -> None:
    """Raise InvalidMessage if these are no fields that a user may give."""
    if fields is not None and fields is not False and not callable(fields):
        raise InvalidMessage("fields", "must be a function: each reader has their own values")


def refuse_unfilled(message: Message[Any, Any]) -> None:
    """Raise InvalidMessage if a message that nobody fills in has a field: readers would see it."""
    for name, value in message.items():
        if found := TAG.search(_as_seen(_read, name, value)):
            raise _unfilled(found, f"the header {name}")
    for part in _shown(message):
        if part.get_content_maintype() != "text" or part.is_multipart():
            continue
        if found := TAG.search(text := _as_seen(_decoded, part)):
            line = text.count("\n", 0, found.start()) + 1
            raise _unfilled(found, f"line {line} of {part.get_content_type()}")


def _as_seen(read: Callable[..., str], *given: object) -> str:
    """Return a text, or "" where it cannot be read."""
    try:
        return read(*given)
    except (InvalidMessage, *LEAKS):
        return ""


def _unfilled(found: re.Match[str], place: str) -> InvalidMessage:
    named = "{{ " + found[1][:40] + " }}"
    remedy = "give a function, or False to send it as it stands"
    return InvalidMessage("fields", f"are missing for {named} in {place}: {remedy}")


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
    """A message on its way to a template: marks keep the places of the lines with fields."""

    message: Message[Any, Any]
    subject: tuple[str, ...] = ()
    lines: dict[bytes, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, message: Message[Any, Any]) -> Draft:
        """Take the fields out of a message's texts and subject. Raises InvalidMessage."""
        if any(map(is_sealed, _shown(message))):
            raise InvalidMessage("fields", "a signed message cannot be filled in (RFC 1847 §2.1)")
        draft = cls(structure.detached(message))
        texts = list(_texts(draft.message))
        digest = hashlib.sha256("\0".join(text for _, text in texts).encode("utf-8", "replace"))
        for part, text in texts:
            if "{{" in text:
                draft._take(part, text, digest.hexdigest()[:32])
        for name, given in message.items():
            value = _read(name, given)
            if name.lower() == "subject" and "{{" in value:
                if draft.subject:
                    raise InvalidMessage("subject", "the message has two (RFC 5322 §3.6)")
                if "\ufffd" in value:
                    raise InvalidMessage("subject", "has octets of no known charset (RFC 2047 §5)")
                draft.subject = _pieces(value)
            elif TAG.search(value):
                rule = f"can stand in texts and in the subject only, not in {name}"
                raise InvalidMessage("fields", rule)
        if draft.subject:
            del draft.message["Subject"]
        return draft

    def _take(self, part: Message[Any, Any], text: str, digest: str) -> None:
        subtype = part.get_content_subtype()
        if subtype != "plain" and not _MARKUP.fullmatch(subtype):
            rule = f"can stand in plain text and HTML only, not in text/{subtype[:40]}"
            raise InvalidMessage("fields", rule)
        kind = PLAIN if subtype == "plain" else HTML
        lines = list[str]()
        for line in _BREAK.sub("\n", text).split("\n"):
            if "{{" not in line:
                lines.append(quoted_printable(line).decode())
                continue
            if "\0" in line:  # it separates lines in a template
                raise InvalidMessage("fields", "cannot stand on a line with a NUL")
            _pieces(line)
            mark = f"merge-{len(self.lines)}-{digest}"
            self.lines[mark.encode()] = (kind + line).encode()
            lines.append(mark)
        part.set_payload("\n".join(lines))
        del part["Content-Transfer-Encoding"]
        part["Content-Transfer-Encoding"] = "quoted-printable"
        structure.declare(self.message)
        part.set_param("charset", "utf-8")

    def finish(self, octets: bytes, fields_of: FieldsOf, *, max_size: int) -> tuple[bytes, Merge]:
        """Return the rendered message's template, and the `Merge` that fills it for readers."""
        for mark, line in self.lines.items():
            octets = octets.replace(mark, b"\0" + line + b"\0")
        template = Template(octets)
        names = tuple(dict.fromkeys((*self.subject[1::2], *template.names)))
        if not names:
            raise InvalidMessage("fields", "the message has none; write one as {{ name }}")
        return octets, Merge(template, self.subject, fields_of, names, max_size)


def _read(name: str, value: object) -> str:
    """Return a header as a reader sees it: an encoded word may hold a field."""
    text = unfolded(str(value))
    if "=?" not in text:
        return text
    try:
        return as_read(text)
    except LEAKS as error:
        reason = f"cannot be read ({type(error).__name__})"
        raise InvalidMessage(name.lower(), reason) from None


def _pieces(line: str) -> tuple[str, ...]:
    pieces = tuple(TAG.split(line))
    if any("{{" in text for text in pieces[::2]):
        rule = "a field is {{ name }}, on one line, of ASCII letters, digits and _"
        raise InvalidMessage("fields", rule)
    return pieces


def _texts(message: Message[Any, Any]) -> Iterator[tuple[Message[Any, Any], str]]:
    """Yield the texts that a reader sees."""
    for part in _shown(message):
        if part.get_content_maintype() == "text" and not part.is_multipart():
            yield part, _decoded(part)


def _shown(part: Message[Any, Any]) -> Iterator[Message[Any, Any]]:
    """Yield a part and those within it, without attachments and the parts within them."""
    yield part
    within: Any = part.get_payload() if part.is_multipart() else ()
    for inner in within:
        is_file = inner.get_filename() or inner.get_content_disposition() == "attachment"
        if not is_file and inner.get_content_maintype() != "message":
            yield from _shown(inner)


def _decoded(part: Message[Any, Any]) -> str:
    octets = part.get_payload(decode=True)
    charset = str(part.get_content_charset("utf-8"))
    try:
        if is_for_hosts(charset):
            raise LookupError(charset)
        return octets.decode(charset) if isinstance(octets, bytes) else str(octets)
    except (UnicodeError, LookupError):
        raise InvalidMessage("fields", f"a text is not in its charset, {charset[:40]}") from None
