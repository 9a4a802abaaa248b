"""Makes the part of an attachment: in base64, except a message, which no part may encode."""

from __future__ import annotations

import unicodedata
from email import message_from_bytes
from email.encoders import encode_base64
from email.mime.base import MIMEBase

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.fields import LEAKS, check_headers
from ...domain.mime.line_endings import fits, normalise
from ...domain.mime.parameters import with_parameter
from ...domain.mime.seven_bit import seven_bit
from ...domain.mime.structure import label
from ...domain.mime.transfer_encoding import IDENTITIES
from .checked_text import as_text, clean

MOST_LOOKS = 500_000
"""A parser looks at each line once for each multipart. More of that would take over a second."""


def is_message(content_type: object) -> bool:
    """Return whether an attachment of this type is a message."""
    return str(content_type).partition(";")[0].strip().lower() == "message/rfc822"


def part_of(attachment: flask_mail.Attachment, *, ascii_name: bool) -> MIMEBase:
    """Return the part, or raise InvalidMessage; with `ascii_name` its name is made ASCII."""
    content_type = clean("content_type", attachment.content_type)
    data = _octets(attachment.data)
    encoding = encoding_as_it_is(data) if is_message(content_type) else "base64"
    part = _part(content_type if encoding else "application/octet-stream", data, encoding)
    if attachment.filename is not None:
        filename = clean("filename", attachment.filename)
        if ascii_name:
            plain = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode()
            filename = " ".join(plain.split())
        name, disposition = "Content-Disposition", clean("disposition", attachment.disposition)
        part[name] = with_parameter(name, disposition, "filename", filename)
    for name, value in (attachment.headers or {}).items():
        part.add_header(clean("headers", name), clean("headers", as_text("headers", value)))
    return part


def _part(content_type: str, data: bytes, encoding: str | None) -> MIMEBase:
    kind, _, subtype = content_type.partition("/")
    if not kind or not subtype:
        raise InvalidMessage("content_type", "must be type/subtype")
    part = MIMEBase(kind, subtype)
    if encoding in IDENTITIES:
        part.set_payload(data.decode("ascii", "surrogateescape"))
        label(part, encoding)
    else:
        part.set_payload(data)
        encode_base64(part)
    return part


def encoding_as_it_is(data: bytes) -> str | None:
    """Return 7bit or 8bit for a message that may be a part as it is; else None.

    RFC 2046 §5.2.1 forbids base64 there: readers would show it in the place of the message. Such a
    part is read with the whole message. So it must be as quick to read, and a server without
    8BITMIME must be able to take it.
    """
    multiparts = data.lower().count(b"multipart/")
    if data.count(b"\n") * (1 + multiparts) > MOST_LOOKS:
        return None
    if not fits(data) or b"\r" in data.replace(b"\r\n", b""):
        return None
    try:
        check_headers(message_from_bytes(data))
        goes_anywhere = data.isascii() or seven_bit(normalise(data)) is not None
    except (InvalidMessage, *LEAKS):
        return None
    if not goes_anywhere:
        return None
    return "7bit" if data.isascii() else "8bit"


def _octets(data: object) -> bytes:
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if not isinstance(data, str):
        raise InvalidMessage("attachments", "the data must be text or bytes")
    try:
        return data.encode()
    except UnicodeEncodeError:
        raise InvalidMessage("attachments", "the text has lone surrogates") from None
