"""A `flask_mail.Message` becomes a standard message: its structure, without Flask-Mail's faults."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from email.encoders import encode_base64
from email.header import Header
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formataddr, formatdate
from typing import Any

import flask_mail

from ..domain.address import CONTROL, check_address
from ..domain.errors import InvalidMessage
from ..domain.headers import parse_addresses

Address = str | tuple[str, str]


def standard(message: object, *, ascii_attachments: bool = False) -> Message[Any, Any]:
    """Return a standard message for what a user hands to `enqueue`, or raise InvalidMessage."""
    if isinstance(message, flask_mail.Message):
        return _compose(message, ascii_attachments)
    if isinstance(message, (EmailMessage, Message)):
        return message
    raise InvalidMessage("message", "must be a flask_mail.Message or an email.message.EmailMessage")


def _compose(source: flask_mail.Message, ascii_attachments: bool) -> Message[Any, Any]:
    message: Message[Any, Any] = _body(source)
    for attachment in source.attachments or []:
        message.attach(_attachment(attachment, ascii_attachments))
    if source.subject:
        message["Subject"] = _text("subject", str(source.subject))
    if not source.sender:
        raise InvalidMessage("sender", "is required; set it or MAIL_DEFAULT_SENDER")
    message["From"] = _addresses("sender", [source.sender])
    for name, addresses in (("To", source.recipients), ("Cc", source.cc), ("Bcc", source.bcc)):
        if addresses:
            message[name] = _addresses("recipients" if name == "To" else name.lower(), addresses)
    if source.date is not None:
        message["Date"] = formatdate(source.date, localtime=True)
    message["Message-ID"] = _clean("msgId", source.msgId)
    if source.reply_to:
        message["Reply-To"] = _addresses("reply_to", [source.reply_to])
    for name, value in (source.extra_headers or {}).items():
        message[_clean("extra_headers", name)] = _text("extra_headers", str(value))
    return message


def _body(source: flask_mail.Message) -> MIMEBase:
    """Text alone, or a multipart as Flask-Mail makes it."""
    if not source.attachments and not source.alts:
        return _part(source, source.body)
    message = MIMEMultipart()
    if not source.alts:
        message.attach(_part(source, source.body))
        return message
    alternative = MIMEMultipart("alternative")
    alternative.attach(_part(source, source.body))
    for subtype, content in source.alts.items():
        alternative.attach(_part(source, content, _clean("alts", subtype)))
    message.attach(alternative)
    return message


def _part(source: flask_mail.Message, text: object, subtype: str = "plain") -> MIMEText:
    charset = _clean("charset", source.charset or "utf-8")
    try:
        return MIMEText("" if text is None else str(text), subtype, charset)
    except (LookupError, UnicodeError):
        raise InvalidMessage("charset", "cannot encode the text") from None


def _attachment(attachment: flask_mail.Attachment, ascii_name: bool) -> MIMEBase:
    kind, _, subtype = _clean("content_type", attachment.content_type).partition("/")
    if not kind or not subtype:
        raise InvalidMessage("content_type", "must be type/subtype")
    part = MIMEBase(kind, subtype)
    data = attachment.data
    part.set_payload(data.encode() if isinstance(data, str) else data)
    encode_base64(part)
    if attachment.filename is not None:
        filename = _clean("filename", attachment.filename)
        if ascii_name:
            plain = unicodedata.normalize("NFKD", filename).encode("ascii", "ignore").decode()
            filename = " ".join(plain.split())
        value = filename if filename.isascii() else ("UTF8", "", filename)
        part.add_header(
            "Content-Disposition", _clean("disposition", attachment.disposition), filename=value
        )
    for name, value in (attachment.headers or {}).items():
        part.add_header(_clean("headers", name), _clean("headers", str(value)))
    return part


def _clean(field: str, value: str) -> str:
    """Refuse what could begin a header of its own."""
    if CONTROL.search(value):
        raise InvalidMessage(field, "must not contain control characters or line breaks")
    return value


def _text(field: str, value: str) -> str | Header:
    _clean(field, value)
    return value if value.isascii() else Header(value, "utf-8")


def _addresses(field: str, addresses: Iterable[Address]) -> str:
    return ", ".join(formataddr(_pair(field, address)) for address in addresses)


def _pair(field: str, address: Address) -> tuple[str, str]:
    if isinstance(address, tuple):
        name, address = address
        return _clean(field, str(name or "")), check_address(address, field)
    found = parse_addresses(field, _clean(field, str(address)))
    if len(found) != 1:
        raise InvalidMessage(field, "each entry is one address")
    return found[0].display_name, check_address(found[0].addr_spec, field)
