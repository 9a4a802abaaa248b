"""Reads caught emails. They may come from strangers: what cannot be read is left out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import default

from ..maildir import arrival

_UNREADABLE = (MessageError, LookupError, ValueError, TypeError, AttributeError, RecursionError)
"""What CPython's strict parser raises for emails from strangers: for unknown charsets or encodings,
and for comments nested a thousand deep."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One email's line in the list."""

    name: str
    arrived: datetime
    sender: str
    recipient: str
    subject: str


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that an email carries."""

    name: str
    kind: str  # its media type
    data: bytes


def parse(raw: bytes) -> EmailMessage:
    """Return the message; an empty one where its octets cannot be read."""
    try:
        return message_from_bytes(raw, policy=default)
    except _UNREADABLE:  # only its source can be shown
        return EmailMessage()


def entry_of(name: str, raw: bytes) -> Entry:
    """Return the line of an email, of which the header is enough."""
    head, _, _ = raw.partition(b"\r\n\r\n")
    message = parse(head + b"\r\n\r\n")
    return Entry(
        name=name,
        arrived=arrival(name),
        sender=header_of(message, "From"),
        recipient=header_of(message, "Delivered-To"),
        subject=header_of(message, "Subject") or "(no subject)",
    )


def header_of(message: EmailMessage, name: str) -> str:
    """Return a header's text, or nothing."""
    try:
        return str(message[name] or "")
    except _UNREADABLE:
        return ""


def body_of(message: EmailMessage, kind: str) -> str | None:
    """Return the text of the body's `html` or `plain` part, or None."""
    try:
        part = message.get_body((kind,))
        return None if part is None else str(part.get_content())
    except _UNREADABLE:
        return None


def attachments_of(message: EmailMessage) -> list[Attachment]:
    """Return the files that the email carries."""
    try:
        return [_attachment(part) for part in message.iter_attachments()]
    except _UNREADABLE:
        return []


def _attachment(part: EmailMessage) -> Attachment:
    data = part.get_payload(decode=True)
    return Attachment(
        name=_file_name(part.get_filename()),
        kind=part.get_content_type(),
        data=data if isinstance(data, bytes) else b"",
    )


def _file_name(given: object) -> str:
    """Return a name that is safe as a file's: no path, and no control characters."""
    text = str(given or "").replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in text if char.isprintable()).strip(". ")[:100] or "attachment"
