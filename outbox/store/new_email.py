"""A new email: which columns of `outbox_email` it fills, and with which values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ..domain.config.enqueue_options import Options
from ..domain.config.search_terms import Term
from ..domain.delivery.status import Status
from ..domain.message.render import RenderedMessage
from ..domain.search.digests import digests
from ..domain.search.subject import folded_subject, read_subject
from .encryption.cipher import Cipher
from .encryption.parts import owner_of, seal_own

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
    "traceparent",
)
"""The columns without the content's id and the times that the database gives."""

Values = tuple[Any, ...]
"""A value for each of `COLUMNS`. They are plain, because a driver also gets them as they are."""

Entry = tuple[Values, Collection[int]]
"""The row of an email, and the digests under which it is looked up."""


class NewContent(NamedTuple):
    """The octets of a content in clear, and the subject by which it is found."""

    body: bytes
    subject: str | None  # as `folded_subject` makes it; None where subjects are not indexed
    owner: str = ""  # the Message-ID of the only email that has it; "": any may

    @classmethod
    def of(cls, body: bytes, subject: str | None, owner: str = "") -> NewContent:
        """Return a content that is found by its subject, which is given as a reader sees it."""
        return cls(body, None if subject is None else folded_subject(subject), owner)


class NewEmail(NamedTuple):
    """A rendered message, the options with which it is sent, and the lane in which it waits."""

    message: RenderedMessage
    options: Options
    lane: str
    traceparent: str | None = None  # the context of the request that writes it

    def fingerprint(self, cipher: Cipher) -> bytes:
        """Return the message's fingerprint as it is stored."""
        return cipher.digest(self.message.fingerprint())

    def values(self, cipher: Cipher) -> Values:
        """Return the row of an email that waits for its due time, encrypted where its content is.

        The content must be stored with the same cipher.
        """
        message, options = self.message, self.options
        own = (message.mail_options, message.rcpt_options)
        sender = message.sender if options.envelope_from is None else options.envelope_from
        headers, merge = seal_own(cipher, message.headers, message.merge, message.message_id)
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
            headers,
            json.dumps(own) if any(own) else None,
            merge,
            options.key,
            None if options.key is None else self.fingerprint(cipher),
            options.tag,
            options.redact,
            self.traceparent,
        )

    def entry(self, cipher: Cipher, indexed: Collection[Term]) -> Entry:
        """Return the email's values, and its digests for the terms that are `indexed`."""
        message = self.message
        return self.values(cipher), digests(indexed, message.recipients, message.message_id)

    def content(self, indexed: Collection[Term]) -> NewContent:
        """Return the content, with its subject if subjects are `indexed`."""
        message = self.message
        owner = owner_of(message.headers, message.message_id)
        if Term.SUBJECT not in indexed:
            return NewContent(message.content, None, owner)
        own = read_subject(message.headers)
        subject = read_subject(message.content) if own is None else own
        return NewContent.of(message.content, subject, owner)


class Coming(NamedTuple):
    """Emails that are made while they are written: how many they are, and the emails."""

    size: int
    emails: Iterator[NewEmail]
