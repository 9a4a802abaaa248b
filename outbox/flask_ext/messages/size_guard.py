"""Refuses a message that is too large by its parts' sizes, before it is rendered."""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message
from typing import Any

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.fields import LEAKS
from .attachment import is_message

_OCTETS = (str, bytes, bytearray)


def refuse_heavy(message: object, max_size: int) -> None:
    """Raise InvalidMessage for a message that is certain to exceed `max_size` bytes.

    Rendering takes many times the message's size in memory, and a visitor may have chosen the
    attachment.
    """
    try:
        size = _least_size(message)
    except LEAKS as error:  # such as a text where an Attachment belongs
        reason = f"cannot be read ({type(error).__name__})"
        raise InvalidMessage("message", reason) from None
    if size > max_size:
        rule = f"is at least {size} bytes; OUTBOX_MAX_SIZE allows {max_size}"
        raise InvalidMessage("message", rule)


def _least_size(message: object) -> int:
    """Return the least number of bytes that a message's texts and attachments take.

    A character takes at least one byte, and Flask-Mail's attachments are sent in base64, except
    messages.
    """
    if isinstance(message, flask_mail.Message):
        texts = _size((message.body, *message.alts.values()) if message.alts else (message.body,))
        if not message.attachments:
            return texts
        files = _size(part.data for part in message.attachments)
        whole = _size(part.data for part in message.attachments if is_message(part.content_type))
        return texts + whole + (files - whole) * 4 // 3
    if isinstance(message, Message):
        return _size(map(_payload, message.walk()))
    return 0


def _size(parts: Iterable[object]) -> int:
    size = 0
    for part in parts:  # faster than `sum`, and it runs for every message
        if isinstance(part, _OCTETS):
            size += len(part)
    return size


def _payload(part: Message[Any, Any]) -> object:
    # `get_payload` would make a decoded copy of non-ASCII content.
    return getattr(part, "_payload", None)
