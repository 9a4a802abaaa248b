"""Makes the part of an attachment: in base64, except what no part may encode, such as a message."""

from __future__ import annotations

import re
import unicodedata
from email import message_from_bytes
from email.encoders import encode_base64
from email.message import Message
from email.mime.base import MIMEBase

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.charsets import is_for_hosts
from ...domain.header.fields import LEAKS, MAX_PARAMETERS, check_headers
from ...domain.mime.line_endings import fits, normalise
from ...domain.mime.parameters import with_parameter
from ...domain.mime.serialize import flatten
from ...domain.mime.seven_bit import seven_bit
from ...domain.mime.structure import label
from ...domain.mime.transfer_encoding import IDENTITIES
from .checked_text import as_text, clean

MOST_LOOKS = 500_000
"""A parser looks at each line once for each multipart. More of that would take over a second."""

_BLANKS = re.compile(rb":[ \t]+")


def is_message(content_type: object) -> bool:
    """Return whether an attachment of this type is a message, or a report to be read like one."""
    return _kind(content_type).startswith("message/")


def _kind(content_type: object) -> str:
    return str(content_type).partition(";")[0].strip().lower()


def part_of(attachment: flask_mail.Attachment, *, ascii_name: bool) -> MIMEBase:
    """Return the part, or raise InvalidMessage; with `ascii_name` its name is made ASCII."""
    content_type = clean("content_type", attachment.content_type)
    data, charset = _octets(attachment.data, content_type)
    encoding = _encoding(_kind(content_type), data)
    part = _part(content_type if encoding else "application/octet-stream", data, encoding)
    if charset is not None and encoding is not None:
        part.set_param("charset", charset)
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


def _encoding(kind: str, data: bytes) -> str | None:
    """Return the transfer encoding of an attachment; None where its type allows none that fits.

    RFC 2045 §6.4 forbids to encode a multipart, which has parts of its own.
    """
    if kind == "message/rfc822":
        return encoding_as_it_is(data)
    if is_message(kind):
        return _report_encoding(kind, data)
    return None if kind.startswith("multipart/") else "base64"


def _report_encoding(kind: str, data: bytes) -> str | None:
    """Return 7bit, which RFC 3464 §2.1 and its like want of a report; None where it needs more.

    Programs take base64 there for the report itself.
    """
    if not data.isascii() or _takes_long(data) or not _fits(data):
        return None
    # For a server without 8BITMIME the whole email may be read and written anew. That may change
    # the blanks behind a field's name and at the end, and nothing else.
    whole = normalise(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + data)
    try:
        again = flatten(message_from_bytes(whole), smtputf8=False)
    except (InvalidMessage, *LEAKS):
        return None
    return "7bit" if _but_for_blanks(again) == _but_for_blanks(whole) else None


def _but_for_blanks(data: bytes) -> bytes:
    return _BLANKS.sub(b":", data).rstrip()


def _takes_long(data: bytes) -> bool:
    return data.count(b"\n") * (1 + data.lower().count(b"multipart/")) > MOST_LOOKS


def _fits(data: bytes) -> bool:
    return fits(data) and b"\r" not in data.replace(b"\r\n", b"")


def encoding_as_it_is(data: bytes) -> str | None:
    """Return 7bit or 8bit for a message that may be a part as it is; else None.

    RFC 2046 §5.2.1 forbids base64 there: readers would show it in the place of the message. Such a
    part is read with the whole message. So it must be as quick to read, and a server without
    8BITMIME must be able to take it.
    """
    if _takes_long(data) or not _fits(data):
        return None
    try:
        check_headers(message_from_bytes(data))
        goes_anywhere = data.isascii() or seven_bit(normalise(data)) is not None
    except (InvalidMessage, *LEAKS):
        return None
    if not goes_anywhere:
        return None
    return "7bit" if data.isascii() else "8bit"


def _octets(data: object, content_type: str) -> tuple[bytes, str | None]:
    """Return the data in octets, and the charset that the type must name where it names another.

    A text is written in the charset that its type names. Where that is not possible, it is UTF-8.
    """
    if isinstance(data, (bytes, bytearray)):
        return bytes(data), None
    if not isinstance(data, str):
        raise InvalidMessage("attachments", "the data must be text or bytes")
    charset = _charset(content_type)
    try:
        return data.encode(charset or "utf-8"), None
    except (LookupError, UnicodeError):
        pass
    try:
        return data.encode(), "utf-8"
    except UnicodeEncodeError:
        raise InvalidMessage("attachments", "the text has lone surrogates") from None


def _charset(content_type: str) -> str | None:
    """Return the charset that a type names; None for one that is refused later, or is too long."""
    if "charset" not in content_type.lower() or len(content_type) > MAX_PARAMETERS:
        return None
    header: Message[str, str] = Message()
    header["Content-Type"] = content_type
    charset = header.get_content_charset()
    return None if charset is None or is_for_hosts(charset) else charset
