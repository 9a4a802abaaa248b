"""What the errors that end a session say, as replies and events."""

from __future__ import annotations

import smtplib
from dataclasses import replace

from ..domain.delivery.reply_table import Event
from ..domain.delivery.transaction import Reply
from .reply_reader import NoReply, clean, parse_reply


class Unwanted(smtplib.SMTPException):
    """A reply other than the one that the command asked for."""

    event: Event | None = None

    def __init__(self, code: int, lines: bytes) -> None:
        super().__init__(code)
        self.reply = parse_reply(code, lines)


def explain(error: OSError | ValueError) -> tuple[Reply, Event | None]:
    """Return the reply and the event for an exception that ended a session's start."""
    match error:
        case NoReply() | Unwanted():
            return error.reply, error.event
        case smtplib.SMTPResponseException():
            return parse_reply(error.smtp_code, octets(error.smtp_error)), None
        case smtplib.SMTPNotSupportedError():
            return Reply(code=0, text=clean(str(error))), Event.LACKING
        case OSError():
            lost = NoReply.of(error)
            return lost.reply, lost.event
    return Reply(code=0, text=clean(f"{type(error).__name__}: {error}")), Event.LACKING


def unquoted(reply: Reply, event: Event | None) -> Reply:
    """Return a reply to AUTH without the server's words: some quote the line with the password."""
    if event not in (None, Event.GARBAGE):  # then the text is our own
        return reply
    # Octets that are not a reply are quoted behind our words and a colon.
    ours = reply.enhanced if event is None else reply.text.partition(":")[0]
    return replace(reply, text=f"{ours} {_WITHHELD}".lstrip())


_WITHHELD = "(the server's words are not kept: they may repeat the credentials)"


def octets(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
