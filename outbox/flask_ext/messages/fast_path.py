"""The fast path: renders an ordinary `flask_mail.Message` without building a standard message.

Any other message takes the full path, over `convert.standard` and `render.render`. Both paths give
the same octets.
"""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import format_datetime, formatdate
from functools import lru_cache
from time import time

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.fields import DESTINATIONS, LEAKS, MAX_HEADER
from ...domain.message import fast_render
from ...domain.message.render import RenderedMessage, check_message_id, split
from .convert import Head, extra_value, read_head, texts_of
from .own_class import renders_itself

_SUBTYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_EXTRA = re.compile(r"(?:x|list)-[a-z0-9-]+", re.IGNORECASE)
"""Extra headers that may occur any number of times and do not affect the message's structure."""
_NAME = re.compile(r'(?!.*=\?)[^"\\]{0,100}')
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9.-]+")
_HOLLOW = re.compile(r"\n(?![ \t]+[^\s])")
"""A fold whose next line is empty."""


def render_fast(
    source: object,
    *,
    send_at: datetime | None,
    max_size: int,
    split_size: int,
    id_domain: str = "",
) -> RenderedMessage | None:
    """Return an ordinary message as it is stored; None for any other, or one with a fault."""
    if not isinstance(source, flask_mail.Message) or not _is_letter(source):
        return None
    try:
        head = read_head(source, id_domain)
        given = source.extra_headers or {}
        extra = [(name, extra_value(name, value)) for name, value in given.items()]
        message_id = check_message_id(head.message_id)
    except (InvalidMessage, *LEAKS):
        return None  # the full path raises the error
    fields = _fields(head, extra, send_at)
    recipients = tuple(dict.fromkeys([address for _, address in head.recipients]))
    if not recipients or not _is_plain(head, fields):
        return None
    data = fast_render.write(fields, [(kind, text or "") for kind, text in texts_of(source)])
    if data is None or len(data) > max_size:
        return None
    headers, content = split(data, split_size)
    return RenderedMessage(
        sender=head.sender[1],
        recipients=recipients,
        message_id=message_id,
        headers=headers,
        content=content,
        mail_options=tuple(source.mail_options),
        rcpt_options=tuple(source.rcpt_options),
    )


def _is_letter(source: flask_mail.Message) -> bool:
    if renders_itself(source) or source.attachments or source.charset not in (None, "utf-8"):
        return False
    for kind, text in (("plain", source.body), *source.alts.items()):
        if not isinstance(text, str | None) or not _is(_SUBTYPE, kind):
            return False
    return not source.extra_headers or all(_is(_EXTRA, name) for name in source.extra_headers)


def _is(pattern: re.Pattern[str], name: object) -> bool:
    return isinstance(name, str) and pattern.fullmatch(name) is not None


def _fields(
    head: Head, extra: list[tuple[str, str]], send_at: datetime | None
) -> list[tuple[str, str]]:
    """Return the fields in the order in which the full path has them."""
    dated = head.rest[0][0] == "Date"
    people = head.people[:-1] if head.people[-1][0] == "Bcc" else head.people
    shown = people + (head.rest[1:] if dated and send_at is not None else head.rest) + extra
    if send_at is not None:
        shown.append(("Date", format_datetime(send_at)))
    elif not dated:
        shown.append(("Date", _date(int(time()))))
    return shown


@lru_cache(maxsize=1)
def _date(second: int) -> str:
    """Return the Date of a second. It is cached, because many emails are written in one second."""
    return formatdate(second)


def _is_plain(head: Head, fields: list[tuple[str, str]]) -> bool:
    """Return whether a parser would surely read the fields as meant, so that none is needed."""
    for name, address in (head.sender, *head.recipients):
        if not _ADDRESS.fullmatch(address) or (name and not _NAME.fullmatch(name)):
            return False
    for name, value in fields:
        if len(value) > MAX_HEADER and name not in DESTINATIONS:
            return False
        if "\n" in value and _HOLLOW.search(value):
            return False
    return True
