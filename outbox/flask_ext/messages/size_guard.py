"""A message that is too large is refused by its parts' sizes, before it is rendered."""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message
from typing import Any

import flask_mail

from ...domain.errors import InvalidMessage

_OCTETS = (str, bytes, bytearray)


def refuse_heavy(message: object, max_size: int) -> None:
    """Raise InvalidMessage where a message is certain to be over `max_size` bytes.

    Rendering takes many times its size of memory, and a visitor may have chosen what is attached.
    """
    size = _least_size(message)
    if size > max_size:
        rule = f"is at least {size} bytes; OUTBOX_MAX_SIZE allows {max_size}"
        raise InvalidMessage("message", rule)


def _least_size(message: object) -> int:
    """Return the bytes that a message's texts and attachments take at the least.

    A character is at least one byte, and Flask-Mail's attachments go in base64.
    """
    if isinstance(message, flask_mail.Message):
        texts = _size((message.body, *message.alts.values()) if message.alts else (message.body,))
        if not message.attachments:
            return texts
        return texts + _size(part.data for part in message.attachments) * 4 // 3
    if isinstance(message, Message):
        return _size(map(_payload, message.walk()))
    return 0


def _size(parts: Iterable[object]) -> int:
    size = 0
    for part in parts:  # not `sum`: every message is asked for
        if isinstance(part, _OCTETS):
            size += len(part)
    return size


def _payload(part: Message[Any, Any]) -> object:
    # `get_payload` would make a copy of what is not ASCII, decoded.
    return getattr(part, "_payload", None)
