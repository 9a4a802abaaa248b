"""An email as a row of `outbox_email`: which columns an enqueue fills, and with what."""

from __future__ import annotations

import json
from typing import Any

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
)
"""All but the content's id and the times, which the database gives."""

Values = tuple[Any, ...]
"""A value for each of `COLUMNS`, plain ones: they also go to a driver as they are."""


def column_values(mail: RenderedMessage, options: Options, lane: str) -> Values:
    """Return the row of an email that waits for its due time."""
    own = (mail.mail_options, mail.rcpt_options)
    sender = mail.sender if options.envelope_from is None else options.envelope_from
    return (
        options.send_at,
        options.expires_at,
        mail.size,
        int(options.priority),
        0,
        0,
        0,
        options.max_attempts,
        len(mail.recipients),
        mail.smtputf8 or not sender.isascii(),
        mail.eightbit,
        Status.PENDING.value,
        lane,
        None if options.on_unknown is None else options.on_unknown.value,
        sender,
        mail.recipients[0],
        mail.message_id,
        mail.headers,
        json.dumps(own) if any(own) else None,
        mail.merge,
        options.key,
        None if options.key is None else mail.fingerprint(),
        options.tag,
    )
