"""Takes a message as its own class renders it, such as a class that encrypts or signs.

Flask-Mail hands `as_bytes()` to the server, and `send_to` names the recipients there. A subclass of
its `Message` may override both, so the attributes alone do not tell what is to be sent.
"""

from __future__ import annotations

from email.message import Message
from typing import Any

import flask_mail

from ...domain.errors import InvalidMessage
from ...domain.header.signatures import is_signed
from ...domain.mime import given
from ...domain.mime.structure import detached

_RENDERING = ("as_bytes", "_message", "_mimetext")


def renders_itself(message: flask_mail.Message) -> bool:
    """Return whether the message's class overrides what Flask-Mail renders it with."""
    # Nearly every message is of Flask-Mail's own class, and this runs for each.
    return type(message) is not flask_mail.Message and any(
        _overrides(message, name) for name in _RENDERING
    )


def names_recipients(message: flask_mail.Message) -> bool:
    """Return whether the message's class overrides what Flask-Mail reads the recipients from."""
    return _overrides(message, "send_to")


def _overrides(message: flask_mail.Message, name: str) -> bool:
    return getattr(type(message), name) is not getattr(flask_mail.Message, name)


def rendering(source: flask_mail.Message) -> Message[Any, Any]:
    """Return the message that its class renders. What its methods raise goes to the caller.

    A signed one is read from the octets that Flask-Mail would send, so that the signature holds.
    """
    if _overrides(source, "as_bytes"):
        return _read(source.as_bytes())
    made: object = source._message()
    if not isinstance(made, Message):
        raise InvalidMessage("message", "_message() of its class must return a standard message")
    return _read(made.as_bytes()) if is_signed(made) else detached(made)


def _read(octets: object) -> Message[Any, Any]:
    if not isinstance(octets, (bytes, bytearray)):
        raise InvalidMessage("message", "as_bytes() of its class must return bytes")
    return given.read(bytes(octets))
