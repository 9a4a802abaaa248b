"""A new email: which columns of `outbox_email` it fills, and with which values."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ..domain.config.enqueue_options import Options
from ..domain.delivery.status import Status
from ..domain.message.render import RenderedMessage

COLUMNS = (
    "send_at",
    "expires_at",
    "size",
    "priority",
    "attempts",
    "crashes",
    "unknown_count",
    "max_attempts",
    "recipients",
    "smtputf8",
    "eightbit",
    "status",
    "lane",
    "on_unknown",
    "sender",
    "recipient",
    "message_id",
    "headers",
    "esmtp_options",
    "merge",
    "key",
    "fingerprint",
    "tag",
    "redact",
)
"""The columns without the content's id and the times that the database gives."""

Values = tuple[Any, ...]
"""A value for each of `COLUMNS`. They are plain, because a driver also gets them as they are."""


class NewEmail(NamedTuple):
    """A rendered message, the options with which it is sent, and the lane in which it waits."""

    message: RenderedMessage
    options: Options
    lane: str

    def values(self) -> Values:
        """Return the row of an email that waits for its due time."""
        message, options = self.message, self.options
        own = (message.mail_options, message.rcpt_options)
        sender = message.sender if options.envelope_from is None else options.envelope_from
        return (
            options.send_at,
            options.expires_at,
            message.size,
            int(options.priority),
            0,
            0,
            0,
            options.max_attempts,
            len(message.recipients),
            message.smtputf8 or not sender.isascii(),
            message.eightbit,
            Status.PENDING.value,
            self.lane,
            None if options.on_unknown is None else options.on_unknown.value,
            sender,
            message.recipients[0],
            message.message_id,
            message.headers,
            json.dumps(own) if any(own) else None,
            message.merge,
            options.key,
            None if options.key is None else message.fingerprint(),
            options.tag,
            options.redact,
        )
