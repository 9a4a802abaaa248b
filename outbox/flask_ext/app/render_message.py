"""Renders what a user hands over into what is stored: by the fast path, or by the full one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from typing import Any, NamedTuple

import flask_mail
from flask import current_app, has_app_context

from ...domain.config.enqueue_options import Options
from ...domain.config.settings import Settings
from ...domain.errors import InvalidMessage
from ...domain.header.added_headers import AddedHeaders
from ...domain.message.merge_fields import Draft, Fields, refuse_unfilled
from ...domain.message.personalize import individuals, message_ids
from ...domain.message.render import (
    GivenEnvelope,
    RenderedMessage,
    refuse_resent,
    render,
    render_shared,
)
from ...domain.search.subject import read_subject
from ..messages import fast_path
from ..messages.convert import author, check_kinds, standard
from ..messages.size_guard import refuse_heavy


class SharedMessage(NamedTuple):
    """One message to many readers."""

    content: bytes  # as it is stored: with a merge, the template
    subject: str | None  # as a reader sees it, or with its fields
    is_merged: bool
    write: partial[Iterator[RenderedMessage]]  # each reader's own email, of recipients and places


@dataclass(kw_only=True, slots=True)
class Renderer:
    """Renders messages for one write, as its options say."""

    settings: Settings
    options: Options
    added_headers: AddedHeaders

    def render(self, message: object, envelope: GivenEnvelope | None = None) -> RenderedMessage:
        """Return one message as it is stored; its headers tell the envelope unless one is given."""
        rendered = self._rendered(message, envelope.recipients if envelope else ())
        if envelope is not None:
            rendered = rendered.under(envelope)
        elif isinstance(message, Message):  # one of Flask-Mail names its recipients beside them
            refuse_resent(message)
        added = self.added_headers.common() + self.added_headers.own(message)
        if not added:
            return rendered
        self.added_headers.refuse_several(len(rendered.recipients))
        if rendered.headers:
            return replace(rendered, headers=added + rendered.headers)
        return replace(rendered, content=added + rendered.content)

    def render_shared(self, message: object, fields: Fields) -> SharedMessage:
        """Return what the emails of one message to many readers have in common.

        A merge puts each reader's values of `fields` into the content that all readers share.
        """
        max_size = self.settings.max_size
        self._check(message)
        found = self._standard(message)
        draft = Draft.of(found) if fields else None
        sender, body, smtputf8 = render_shared(
            found if draft is None else draft.message,
            send_at=self.options.send_at,
            max_size=max_size,
        )
        if isinstance(message, flask_mail.Message):
            sender = author(message)  # also beside a Sender, as with one email
            smtputf8 = smtputf8 or not sender.isascii()
        body, merge = self.added_headers.common() + body, None
        subject = read_subject(body)
        if draft is not None and fields:
            body, merge = draft.finish(body, fields, max_size=max_size)
            subject = merge.subject_shown or subject
        elif fields is None:
            refuse_unfilled(found)
        mail_options, rcpt_options = esmtp_options(message)
        write = partial(
            individuals,
            ids=message_ids(sender, self.settings.message_id_domain),
            sender=sender,
            content=body,
            smtputf8=smtputf8,
            mail_options=mail_options,
            rcpt_options=rcpt_options,
            merge=merge,
            header_of=self.added_headers.own if self.added_headers.has_own else None,
        )
        return SharedMessage(body, subject, merge is not None, write)

    def _rendered(self, message: object, named: tuple[str, ...]) -> RenderedMessage:
        settings = self.settings
        self._check(message)
        # One of the message's own headers may be one that is added: the full path refuses that.
        may_repeat = getattr(message, "extra_headers", None) and self.added_headers.names()
        if not may_repeat:
            found = fast_path.render_fast(
                message,
                send_at=self.options.send_at,
                max_size=settings.max_size,
                split_size=settings.reuse_size,
                id_domain=settings.message_id_domain,
            )
            if found is not None:
                return found
        rendered = render(
            self._standard(message),
            send_at=self.options.send_at,
            max_size=settings.max_size,
            split_size=settings.reuse_size,
            id_domain=settings.message_id_domain,
            named=named,
        )
        if not isinstance(message, flask_mail.Message):
            return rendered
        mail_options, rcpt_options = esmtp_options(message)
        return replace(
            rendered, sender=author(message), mail_options=mail_options, rcpt_options=rcpt_options
        )

    def _check(self, message: object) -> None:
        """Refuse a message that cannot be read, is too large, or has no sender for its bounces.

        A null sender is for automatic messages, where a bounce could start a loop. A person wants
        to know that an email did not arrive.
        """
        if isinstance(message, flask_mail.Message):
            check_kinds(message)
        refuse_heavy(message, self.settings.max_size)
        if self.options.envelope_from == "" and not self.added_headers.is_automatic(message):
            rule = "<> is for automatic messages: give auto_submitted=True (RFC 3834 §5)"
            raise InvalidMessage("envelope_from", rule)

    def _standard(self, message: object) -> Message[Any, Any]:
        found = standard(
            message,
            ascii_attachments=_ascii_attachments(),
            id_domain=self.settings.message_id_domain,
        )
        self.added_headers.refuse_repeated(found)
        return found


def esmtp_options(message: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameters that a message asks for in MAIL and in RCPT."""
    if not isinstance(message, flask_mail.Message):
        return (), ()
    return tuple(message.mail_options), tuple(message.rcpt_options)


def _ascii_attachments() -> bool:
    mail = current_app.extensions.get("mail") if has_app_context() else None
    return bool(getattr(mail, "ascii_attachments", False))
