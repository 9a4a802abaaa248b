"""Renders messages, chooses their lanes, and writes the rows in the user's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, repeat
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from ...domain.config.enqueue_options import MAX_KEY, Options, check_name, refuse_none
from ...domain.config.search_terms import Term
from ...domain.errors import InvalidMessage, KeyConflict, note_place, placed
from ...domain.header.added_headers import AddedHeaders
from ...domain.message.merge_fields import Fields
from ...domain.message.personalize import Recipient, address_of
from ...domain.message.render import GivenEnvelope, RenderedMessage
from ...store.inserts.chunks import in_chunks, in_chunks_of_bytes
from ...store.new_email import Coming, NewContent, NewEmail
from ...store.records import Email
from ...store.session.all_or_none import Caller
from ...store.session.unread_results import read_first
from ...store.transitions.enqueue import Writer
from ...worker.tracing import traceparent
from ..messages.own_envelope import own_envelope
from ..session import session_events
from ..session.midst import midst, settle, spoil
from .origin import origin
from .render_message import Renderer, SharedMessage
from .state import State, refuse_in_preview

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
    traceparent: str | None = field(default_factory=traceparent)  # all its emails have this one
    places: dict[str, tuple[str, int, object]] = field(default_factory=dict)
    """Of many emails with keys: by key the list's name, the place in it, and what stands there."""

    def __post_init__(self) -> None:
        refuse_in_preview()
        settings = self.state.runtime.settings
        if self.options.envelope_from is None and settings.envelope_from:
            self.options = self.options._replace(envelope_from=settings.envelope_from)
        self.renderer = Renderer(
            settings=settings, options=self.options, added_headers=self.added_headers
        )

    def enqueue(self, message: object, envelope: GivenEnvelope | None = None) -> Email:
        """Write one email; its headers tell the envelope unless one is given."""
        rendered = self.renderer.render(message, envelope or own_envelope(message))
        new = self._new(rendered, self.options)
        with self.state.writing(self.session) as connection:
            email = self._writer_on(connection).add(new)
        self._note(int(email.created), connection)
        return email

    def enqueue_many(self, messages: Iterable[object], key: KeyOf | None) -> int:
        """Write an email for each message; return how many are new."""
        _refuse_one_key(key)
        messages = placed("messages", messages)
        with midst(self.session), self._writer() as writer:
            given: Iterable[tuple[int, object, Options]]
            if key is None:
                unread = read_first(writer.connection, messages)
                given = ((place, one, self.options) for place, one in enumerate(unread))
            else:
                chosen = list(messages)
                pairs = self._by_key("messages", chosen, key, self._recipients)
                given = ((place, chosen[place], self._keyed(k)) for k, place in pairs)
            added = writer.add_many(self._rendered(given), self._caller)
        self._note(added, writer.connection)
        return added

    def enqueue_shared(
        self,
        message: object,
        recipients: Iterable[Recipient],
        key: KeyOf | None,
        fields: Fields = None,
    ) -> int:
        """Write an email of one content for each recipient; return how many are new."""
        _refuse_one_key(key)
        recipients = placed("recipients", recipients)
        shared = self.renderer.render_shared(message, fields)
        write = partial(shared.write, places=count())  # it goes on from chunk to chunk
        with midst(self.session), self._writer() as writer:
            if self.options.redact:  # a body goes with its email, so each has one of its own
                given = read_first(writer.connection, recipients)
                added = writer.add_many(self._own(write, given, key), self._caller)
            else:
                chunks = self._chunks(shared, write, writer, recipients, key)
                subject = shared.subject if Term.SUBJECT in writer.indexed else None
                content = NewContent.of(shared.content, subject)
                added = writer.add_shared(content, chunks, self._caller)
        self._note(added, writer.connection)
        return added

    def _chunks(
        self,
        shared: SharedMessage,
        write: partial[Iterator[RenderedMessage]],
        writer: Writer,
        recipients: Iterable[Recipient],
        key: KeyOf | None,
    ) -> Iterable[list[NewEmail] | Coming]:
        """Return the emails of one content, in parts for one statement each."""
        if not (shared.is_merged or key is not None or self.added_headers.has_own):
            everyone = repeat(self.options)
            return (
                Coming(len(part), map(self._new, write(part), everyone))
                for part in in_chunks(recipients)
            )
        # The user's functions run before a statement, not during it.
        own = self._own(write, read_first(writer.connection, recipients), key)
        return in_chunks_of_bytes(own) if shared.is_merged else in_chunks(own)

    def _rendered(self, given: Iterable[tuple[int, object, Options]]) -> Iterator[NewEmail]:
        """Yield the emails of messages that stand at these places in the user's list."""
        for place, message, options in given:
            try:
                rendered = self.renderer.render(message, own_envelope(message))
            except InvalidMessage as error:
                raise error.at("messages", place, message) from None
            except Exception as error:  # of a message of the app's own class
                note_place(error, "messages", place)
                raise
            yield self._new(rendered, options)

    def _own(
        self,
        write: partial[Iterator[RenderedMessage]],
        recipients: Iterable[Recipient],
        key: KeyOf | None,
    ) -> Iterator[NewEmail]:
        """Yield the emails of readers whose keys or URLs come from the user's functions."""
        options: Iterable[Options] = repeat(self.options)
        if key is not None:
            chosen = list(recipients)
            pairs = self._by_key(
                "recipients",
                chosen,
                lambda one: key(address_of(one)),
                lambda one: [address_of(one)],
            )
            recipients = [chosen[i] for _, i in pairs]
            options = (self._keyed(k) for k, _ in pairs)
            write = partial(write, places=[i for _, i in pairs])
        return map(self._new, write(recipients), options)

    def _new(self, message: RenderedMessage, options: Options) -> NewEmail:
        runtime = self.state.runtime
        if options.redact and message.merge is not None:  # its content is stored as it is sent
            message = replace(message, merge=None)
        route = runtime.routes.route_of(message.sender, options.tag)
        lane = runtime.lanes.of(route, message.recipients)
        return NewEmail(message, options, lane, self.traceparent)

    def _by_key(
        self,
        name: str,
        chosen: Sequence[Any],
        key_of: KeyOf,
        addresses_of: Callable[[Any], Iterable[str]],
    ) -> list[tuple[str, int]]:
        """Return (key, place) pairs of the user's list with this name, in the order of the keys.

        Sorted, two transactions that share keys may wait for each other, but never deadlock.
        """
        pairs = []
        for place, one in enumerate(chosen):
            try:
                pair = _key(key_of(one)), place
                if "None" in pair[0]:  # which may be in an address
                    refuse_none(pair[0], addresses_of(one))
                pairs.append(pair)
            except InvalidMessage as error:
                raise error.at(name, place, one) from None
            except Exception as error:  # of the app's own function
                note_place(error, name, place)
                raise
        pairs.sort(key=itemgetter(0))
        self.places = {key: (name, place, chosen[place]) for key, place in pairs}
        return pairs

    def _recipients(self, message: object) -> Iterable[str]:
        return self.renderer.render(message, own_envelope(message)).recipients

    def _keyed(self, key: str) -> Options:
        return self.options._replace(key=key)

    @contextmanager
    def _writer(self) -> Iterator[Writer]:
        """Lend a writer of many emails: an error of one tells its place."""
        try:
            with self.state.writing(self.session) as connection:
                yield self._writer_on(connection)
        except KeyConflict as error:
            if error.key not in self.places:
                raise
            raise error.at(*self.places[error.key]) from None

    def _writer_on(self, connection: Connection) -> Writer:
        runtime = self.state.runtime
        return Writer(
            connection=connection,
            database=runtime.database,
            reuse_size=runtime.settings.reuse_size,
            indexed=runtime.settings.indexed,
        )

    @property
    def _caller(self) -> Caller:
        return Caller(settle=partial(settle, self.session), spoil=partial(spoil, self.session))

    def _note(self, added: int, connection: Connection) -> None:
        runtime = self.state.runtime
        wanted = runtime.settings.nudge and runtime.find_celery() is not None
        at_once = wanted and self.options.send_at is None
        if added:
            session_events.note(
                self.session,
                added,
                connection=connection,
                wake=runtime.nudge.wake if at_once else None,
                # Asked now: when the session is closed the request's context is gone.
                discarded=partial(self.state.discard, origin=origin()),
            )


def _refuse_one_key(key: object) -> None:
    if key is not None and not callable(key):
        raise InvalidMessage("key", "must be a function: each email has a key of its own")


def _key(value: object) -> str:
    key = check_name("key", value, MAX_KEY)
    if key is None:
        raise InvalidMessage("key", "is required for every email")
    return key
