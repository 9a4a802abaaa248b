"""From what a user hands over to rows in the user's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

import flask_mail
from flask import current_app, has_app_context
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from ...domain.config.enqueue_options import MAX_KEY, Options, check_name
from ...domain.errors import InvalidMessage
from ...domain.header.automated import Automatic
from ...domain.message.merge_fields import Draft, FieldsOf, Merge
from ...domain.message.personalize import Recipient, address_of, individuals, message_ids
from ...domain.message.render import RenderedMessage, render, render_shared
from ...store.connection.prepared_statements import unprepared
from ...store.records import Email
from ...store.session.all_or_none import Caller
from ...store.session.unread_results import read_first
from ...store.transitions.enqueue import Mail, Writer, in_chunks, in_chunks_of_bytes
from ..messages import fast_path
from ..messages.convert import author, standard
from ..messages.size_guard import refuse_heavy
from ..session import session_events
from ..session.midst import midst, settle, spoil
from .state import State

KeyOf = Callable[[Any], str]
"""Makes the idempotency key of an email from its address, or from its message."""


@dataclass(kw_only=True, slots=True)
class Writing:
    """One write of emails: where to, and how they are to be sent."""

    state: State
    session: Session
    options: Options
    automatic: Automatic = field(default_factory=Automatic)

    @classmethod
    def of(
        cls, state: State, session: Session, options: Options, automatic: Automatic | None = None
    ) -> Writing:
        """Return a write whose emails bounce to where the settings say, if nothing else does."""
        default = state.runtime.settings.envelope_from
        if options.envelope_from is None and default:
            options = options._replace(envelope_from=default)
        return cls(
            state=state, session=session, options=options, automatic=automatic or Automatic()
        )

    def enqueue(self, message: object) -> Email:
        """Write one email."""
        mail = self.render(message)
        with self._writer() as writer:
            email = writer.add(mail, self.options)
        self._note(int(email.created))
        return email

    def enqueue_many(self, messages: Iterable[object], key: KeyOf | None) -> int:
        """Write an email for each message; return how many are new."""
        with midst(self.session), self._writer() as writer:
            mails: Iterable[Mail]
            if key is None:
                given = read_first(writer.connection, messages)
                mails = ((self.render(message), self.options) for message in given)
            else:
                chosen = list(messages)
                pairs = _by_key(key(message) for message in chosen)
                mails = ((self.render(chosen[i]), self._keyed(k)) for k, i in pairs)
            added = writer.add_many(mails, self._caller)
        self._note(added)
        return added

    def enqueue_shared(
        self,
        message: object,
        recipients: Iterable[Recipient],
        key: KeyOf | None,
        fields: FieldsOf | None = None,
    ) -> int:
        """Write an email of one content for each recipient; return how many are new."""
        sender, body, smtputf8, merge = self._render_shared(message, fields)
        mail_options, rcpt_options = _esmtp_options(message)
        write = partial(
            individuals,
            ids=message_ids(sender, self._id_domain),
            sender=sender,
            content=body,
            smtputf8=smtputf8,
            mail_options=mail_options,
            rcpt_options=rcpt_options,
            merge=merge,
            header_of=self.automatic.own if self.automatic.unsubscribe is not None else None,
        )
        with midst(self.session), self._writer() as writer:
            chunks: Iterable[Iterable[Mail]]
            if merge is None and key is None and self.automatic.unsubscribe is None:
                everyone = repeat(self.options)
                parts = in_chunks(recipients)
                chunks = (zip(write(part), everyone, strict=False) for part in parts)
            else:  # the user's functions are asked before a statement, not within it
                given = read_first(writer.connection, recipients)
                own = self._own(write, given, key)
                chunks = in_chunks(own) if merge is None else in_chunks_of_bytes(own)
            added = writer.add_shared(body, chunks, self._caller)
        self._note(added)
        return added

    def _render_shared(
        self, message: object, fields: FieldsOf | None
    ) -> tuple[str, bytes, bool, Merge | None]:
        max_size = self.state.runtime.settings.max_size
        refuse_heavy(message, max_size)
        self._refuse_null_sender(message)
        found = self._standard(message)
        draft = None if fields is None else Draft.of(found)
        sender, body, smtputf8 = render_shared(
            found if draft is None else draft.message,
            send_at=self.options.send_at,
            max_size=max_size,
        )
        body = self.automatic.common() + body
        if draft is None or fields is None:
            return sender, body, smtputf8, None
        body, merge = draft.finish(body, fields, max_size=max_size)
        return sender, body, smtputf8, merge

    def _own(
        self,
        write: Callable[[Iterable[Recipient]], Iterator[RenderedMessage]],
        recipients: Iterable[Recipient],
        key: KeyOf | None,
    ) -> Iterator[Mail]:
        """Yield the emails of readers who each have a key, or a URL, that the user makes."""
        options: Iterable[Options] = repeat(self.options)
        if key is not None:
            chosen = list(recipients)
            pairs = _by_key(key(address_of(recipient)) for recipient in chosen)
            recipients = [chosen[i] for _, i in pairs]
            options = (self._keyed(k) for k, _ in pairs)
        return zip(write(recipients), options, strict=False)

    def _standard(self, message: object) -> Message[Any, Any]:
        found = standard(message, ascii_attachments=_ascii_attachments(), id_domain=self._id_domain)
        self.automatic.refuse_own(found)
        return found

    def render(self, message: object) -> RenderedMessage:
        """Return the email that `one` would write, with the sender that the message names."""
        mail = self._rendered(message)
        if not self.automatic.adds:
            return mail
        added = self.automatic.common() + self.automatic.own(message)
        if self.automatic.unsubscribe is not None and len(mail.recipients) > 1:
            rule = "the URL is one reader's: write an email to each (RFC 8058 §3.1)"
            raise InvalidMessage("unsubscribe", rule)
        if mail.headers:
            return replace(mail, headers=added + mail.headers)
        return replace(mail, content=added + mail.content)

    def _rendered(self, message: object) -> RenderedMessage:
        settings = self.state.runtime.settings
        refuse_heavy(message, settings.max_size)
        self._refuse_null_sender(message)
        if not (getattr(message, "extra_headers", None) and self.automatic.adds):
            found = fast_path.render_fast(
                message,
                send_at=self.options.send_at,
                max_size=settings.max_size,
                split_size=settings.reuse_size,
                id_domain=settings.message_id_domain,
            )
            if found is not None:
                return found
        mail = render(
            self._standard(message),
            send_at=self.options.send_at,
            max_size=settings.max_size,
            split_size=settings.reuse_size,
            id_domain=settings.message_id_domain,
        )
        if not isinstance(message, flask_mail.Message):
            return mail
        mail_options, rcpt_options = _esmtp_options(message)
        return replace(
            mail, sender=author(message), mail_options=mail_options, rcpt_options=rcpt_options
        )

    def _refuse_null_sender(self, message: object) -> None:
        """A person wants to hear that an email did not arrive; a machine may loop by it."""
        if self.options.envelope_from == "" and not self.automatic.is_of(message):
            rule = "<> is for automatic messages: give auto_submitted=True (RFC 3834 §5)"
            raise InvalidMessage("envelope_from", rule)

    @property
    def _id_domain(self) -> str:
        return self.state.runtime.settings.message_id_domain

    def _keyed(self, key: str) -> Options:
        return self.options._replace(key=key)

    def _lane(self, mail: RenderedMessage, options: Options) -> str:
        runtime = self.state.runtime
        route = runtime.routes.route_of(mail.sender, options.tag)
        return runtime.lanes.of(route, mail.recipients)

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        runtime = self.state.runtime
        try:
            connection = self.state.connection(self.session)
            with unprepared(connection):
                yield Writer(
                    connection=connection,
                    database=runtime.database,
                    reuse_size=runtime.settings.reuse_size,
                    lane=self._lane,
                )
        except DBAPIError as error:
            error.hide_parameters = True  # addresses do not belong in logs
            raise

    @property
    def _caller(self) -> Caller:
        return Caller(settle=partial(settle, self.session), spoil=partial(spoil, self.session))

    def _note(self, added: int) -> None:
        runtime = self.state.runtime
        wanted = runtime.settings.nudge and runtime.find_celery() is not None
        at_once = wanted and self.options.send_at is None
        if added:
            session_events.note(
                self.session,
                added,
                wake=runtime.nudge.wake if at_once else None,
                discarded=self.state.discard,
            )


def _by_key(keys: Iterable[object]) -> list[tuple[str, int]]:
    """Sort by key: two transactions that share keys then wait for each other, never deadlock."""
    return sorted(((_key(key), place) for place, key in enumerate(keys)), key=itemgetter(0))


def _esmtp_options(message: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameters that a message asks for at MAIL and at RCPT."""
    if not isinstance(message, flask_mail.Message):
        return (), ()
    return tuple(message.mail_options), tuple(message.rcpt_options)


def _key(value: object) -> str:
    key = check_name("key", value, MAX_KEY)
    if key is None:
        raise InvalidMessage("key", "is required of every email")
    return key


def _ascii_attachments() -> bool:
    mail = current_app.extensions.get("mail") if has_app_context() else None
    return bool(getattr(mail, "ascii_attachments", False))
