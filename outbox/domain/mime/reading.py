"""Reads a stored message for people: what Python's parser cannot read is given as it is."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy, default
from typing import Any, cast

from ..header.charsets import NO_CHARSET, is_for_hosts, names_one_for_hosts
from ..header.fields import LEAKS


class _Lenient(EmailPolicy):
    """Reads a header up to its parameters, or as an empty one, where the whole raises.

    `Content-Disposition: attachment; filename*` does. The parser reads such headers by itself, also
    to find the body.
    """

    def header_fetch_parse(self, name: str, value: str) -> Any:
        for part in (value, value.partition(";")[0]):
            try:
                return super().header_fetch_parse(name, _quick(part))
            except LEAKS:
                continue
        return super().header_fetch_parse(name, "")


# To fold a header it would have to be read.
_POLICY = cast("EmailPolicy[EmailMessage]", _Lenient(refold_source="none"))


def parsed(octets: bytes) -> EmailMessage:
    """Return the message; no header of it raises when it is read."""
    return message_from_bytes(octets, policy=_POLICY)


def _quick(raw: Any) -> Any:
    """Return a header; raise LookupError for one that would take seconds to decode."""
    if names_one_for_hosts(str(raw)):
        raise LookupError(NO_CHARSET)
    return raw


def header_text(name: str, raw: Any) -> str:
    """Return a header decoded; one that cannot be decoded as it is."""
    try:
        return str(default.header_fetch_parse(name, _quick(raw)))
    except LEAKS:
        return str(raw)


def body_of(message: EmailMessage, kind: str) -> MIMEPart | None:
    """Return the part that is the body, of the kind "plain" or "html"."""
    try:
        return message.get_body((kind,))
    except LEAKS:
        return None


def body_text(message: EmailMessage, kind: str) -> str | None:
    """Return the text of the body, or None without one of that kind."""
    part = body_of(message, kind)
    if part is None:
        return None
    try:
        if is_for_hosts(str(part.get_content_charset(""))):
            raise LookupError(NO_CHARSET)
        return str(part.get_content()).replace("\r\n", "\n")
    except LEAKS:
        content: Any = part.get_payload(decode=True) or b""
        return str(content.decode("utf-8", "replace"))


def file_name(part: EmailMessage) -> str | None:
    """Return the name of a part that is a file; None where it has none that can be read."""
    try:
        return part.get_filename()
    except LEAKS:
        return None
