"""The short way of a `flask_mail.Message`: a letter becomes octets without a standard message.

What it refuses to judge takes the long way, over `compose.standard` and `message.prepare`; what it
takes comes out as the long way would have it.
"""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import format_datetime, formatdate
from itertools import chain

import flask_mail

from ..domain import letter
from ..domain.errors import InvalidMessage
from ..domain.headers import LEAKS
from ..domain.message import MAX_RECIPIENTS, Prepared, check_message_id, split
from .compose import Head, check_options, extra_value, read_head

_SUBTYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_EXTRA = re.compile(r"(?:x|list)-[a-z0-9-]+", re.IGNORECASE)
"""Extra headers of which there may be any, and of which none says how the mail is built."""
_NAME = re.compile(r'(?!.*=\?)[^"\\]*')
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9.-]+")
_HOLLOW = re.compile(r"\n(?![ \t]+[^\s])")
"""A fold with nothing on its next line."""


def prepare(
    source: object, *, send_at: datetime | None, max_size: int, split_size: int
) -> Prepared | None:
    """Return what is stored of a letter, or None for what is none, or has a fault."""
    if not isinstance(source, flask_mail.Message) or not _is_letter(source):
        return None
    try:
        check_options(source)
        head = read_head(source)
        extra = [(name, extra_value(name, value)) for name, value in _extra(source)]
        message_id = check_message_id(source.msgId)
    except (InvalidMessage, *LEAKS):
        return None  # the long way says what is wrong
    fields = _fields(head, extra, send_at)
    recipients = tuple(dict.fromkeys(address for _, address in head.recipients))
    if not recipients or not _is_plain(head, fields):
        return None
    texts = [("plain", source.body or ""), *((k, v or "") for k, v in source.alts.items())]
    data = letter.write(fields, texts)
    if data is None or len(data) > max_size:
        return None
    headers, content = split(data, split_size)
    return Prepared(
        sender=head.sender[1],
        recipients=recipients,
        message_id=message_id,
        headers=headers,
        content=content,
        mail_options=tuple(source.mail_options),
        rcpt_options=tuple(source.rcpt_options),
    )


def _is_letter(source: flask_mail.Message) -> bool:
    return (
        not source.attachments
        and source.charset in (None, "utf-8")
        and all(isinstance(text, str | None) for text in (source.body, *source.alts.values()))
        and all(isinstance(kind, str) and _SUBTYPE.fullmatch(kind) for kind in source.alts)
        and all(isinstance(name, str) and _EXTRA.fullmatch(name) for name, _ in _extra(source))
    )


def _extra(source: flask_mail.Message) -> list[tuple[str, str]]:
    return list((source.extra_headers or {}).items())


def _fields(
    head: Head, extra: list[tuple[str, str]], send_at: datetime | None
) -> list[tuple[str, str]]:
    """Return the fields in the order in which the long way leaves them."""
    shown = [
        field
        for field in chain(head.people, head.rest, extra)
        if field[0] != "Bcc" and (send_at is None or field[0] != "Date")
    ]
    if send_at is not None:
        shown.append(("Date", format_datetime(send_at)))
    elif head.rest[0][0] != "Date":
        shown.append(("Date", formatdate()))
    return shown


def _is_plain(head: Head, fields: list[tuple[str, str]]) -> bool:
    """Whether a parser would read the fields as they were meant, so that none is needed."""
    pairs = (head.sender, *head.recipients)
    return (
        len(head.recipients) <= MAX_RECIPIENTS
        and all(_ADDRESS.fullmatch(address) and _NAME.fullmatch(name) for name, address in pairs)
        and not any("\n" in value and _HOLLOW.search(value) for _, value in fields)
    )
