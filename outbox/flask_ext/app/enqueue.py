"""Renders messages, chooses their lanes, and writes the rows in the user's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from ...domain.config.enqueue_options import MAX_KEY, Options, check_name
from ...domain.errors import InvalidMessage
from ...domain.header.added_headers import AddedHeaders
from ...domain.message.merge_fields import FieldsOf
from ...domain.message.personalize import Recipient, address_of, individuals, message_ids
from ...domain.message.render import GivenEnvelope, RenderedMessage
from ...store.new_email import NewEmail
from ...store.records import Email
from ...store.session.all_or_none import Caller
from ...store.session.unread_results import read_first
from ...store.transitions.enqueue import Writer, in_chunks, in_chunks_of_bytes
from ..session import session_events
from ..session.midst import midst, settle, spoil
from .render_message import Renderer, esmtp_options
from .state import State

KeyOf = Callable[[Any], str]
"""Returns an email's idempotency key for its address, or for its message."""


@dataclass(kw_only=True, slots=True)
class Writing:
    """One write of emails: the session to write in, and how the emails are to be sent."""

    state: State
    session: Session
    options: Options
    added_headers: AddedHeaders = field(default_factory=AddedHeaders)
    renderer: Renderer = field(init=False)

    def __post_init__(self) -> None:
        settings = self.state.runtime.settings
        if self.options.envelope_from is None and settings.envelope_from:
            self.options = self.options._replace(envelope_from=settings.envelope_from)
        self.renderer = Renderer(
            settings=settings, options=self.options, added_headers=self.added_headers
        )

    def enqueue(self, message: object, envelope: GivenEnvelope | None = None) -> Email:
        """Write one email; its headers tell the envelope unless one is given."""
        rendered = self.renderer.render(message)
        new = self._new(rendered if envelope is None else rendered.under(envelope), self.options)
        with self._writer() as writer:
            email = writer.add(new)
        self._note(int(email.created))
        return email

    def enqueue_many(self, messages: Iterable[object], key: KeyOf | None) -> int:
        """Write an email for each message; return how many are new."""
        render = self.renderer.render
        with midst(self.session), self._writer() as writer:
            given: Iterable[NewEmail]
            if key is None:
                unread = read_first(writer.connection, messages)
                given = (self._new(render(message), self.options) for message in unread)
            else:
                chosen = list(messages)
                pairs = _by_key(key(message) for message in chosen)
                given = (self._new(render(chosen[i]), self._keyed(k)) for k, i in pairs)
            added = writer.add_many(given, self._caller)
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
        sender, body, smtputf8, merge = self.renderer.render_shared(message, fields)
        mail_options, rcpt_options = esmtp_options(message)
        write = partial(
            individuals,
            ids=message_ids(sender, self.state.runtime.settings.message_id_domain),
            sender=sender,
            content=body,
            smtputf8=smtputf8,
            mail_options=mail_options,
            rcpt_options=rcpt_options,
            merge=merge,
            header_of=self.added_headers.own if self.added_headers.has_own else None,
        )
        with midst(self.session), self._writer() as writer:
            chunks: Iterable[Iterable[NewEmail]]
            if merge is None and key is None and not self.added_headers.has_own:
                everyone = repeat(self.options)
                chunks = (map(self._new, write(part), everyone) for part in in_chunks(recipients))
            else:  # the user's functions run before a statement, not during it
                given = read_first(writer.connection, recipients)
                own = self._own(write, given, key)
                chunks = in_chunks(own) if merge is None else in_chunks_of_bytes(own)
            added = writer.add_shared(body, chunks, self._caller)
        self._note(added)
        return added

    def _own(
        self,
        write: Callable[[Iterable[Recipient]], Iterator[RenderedMessage]],
        recipients: Iterable[Recipient],
        key: KeyOf | None,
    ) -> Iterator[NewEmail]:
        """Yield the emails of readers whose keys or URLs come from the user's functions."""
        options: Iterable[Options] = repeat(self.options)
        if key is not None:
            chosen = list(recipients)
            pairs = _by_key(key(address_of(recipient)) for recipient in chosen)
            recipients = [chosen[i] for _, i in pairs]
            options = (self._keyed(k) for k, _ in pairs)
        return map(self._new, write(recipients), options)

    def _new(self, message: RenderedMessage, options: Options) -> NewEmail:
        runtime = self.state.runtime
        route = runtime.routes.route_of(message.sender, options.tag)
        return NewEmail(message, options, runtime.lanes.of(route, message.recipients))

    def _keyed(self, key: str) -> Options:
        return self.options._replace(key=key)

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        runtime = self.state.runtime
        try:
            with self.state.writing(self.session) as connection:
                yield Writer(
                    connection=connection,
                    database=runtime.database,
                    reuse_size=runtime.settings.reuse_size,
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
    """Return (key, place) pairs in the order of the keys.

    Sorted, two transactions that share keys may wait for each other, but never deadlock.
    """
    return sorted(((_key(key), place) for place, key in enumerate(keys)), key=itemgetter(0))


def _key(value: object) -> str:
    key = check_name("key", value, MAX_KEY)
    if key is None:
        raise InvalidMessage("key", "is required for every email")
    return key
