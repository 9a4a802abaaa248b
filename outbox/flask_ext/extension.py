"""The Flask extension: `enqueue` writes an email into the request's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from email.message import Message
from typing import Any

import flask_mail
from flask import Flask
from sqlalchemy import Engine, MetaData
from sqlalchemy.orm import scoped_session

from ..domain.config.enqueue_options import MAX_KEY, MAX_TAG, Options, Redact, check_id, check_name
from ..domain.config.settings import OnUnknown
from ..domain.delivery.status import Status
from ..domain.errors import ConfigurationError, InvalidMessage
from ..domain.header.added_headers import AddedHeaders, URLOf, URLs
from ..domain.message.merge_fields import Fields, check_fields
from ..domain.message.personalize import Recipient
from ..domain.priority import Priority
from ..store.connection.endings import noted
from ..store.queries import reports
from ..store.records import Email
from ..store.transitions.cancel import withdraw
from .all_verbs import AllVerbs
from .app.engines import engine_of, is_known, metadata_of
from .app.enqueue import Writing
from .app.state import State, state_of
from .asynchronous import AnyMessage, Asynchronous
from .cli.commands import commands
from .dropin.extensions import take
from .make_runtime import make_runtime
from .previews.pages import attach
from .previews.registry import WithPreviews
from .session import cancelled_unknown, left_open, savepoints
from .session.source import AnySession, SessionSource, refuse_maker

_TWICE = (
    "this app has an outbox already: call init_app once for an app, and import the Outbox that it"
    " was called on"
)


class Outbox(AllVerbs, WithPreviews, Asynchronous):
    """A transactional outbox for e-mail.

    With Flask-SQLAlchemy::

        outbox = Outbox()
        outbox.init_app(app, db=db)

    With plain SQLAlchemy give a `session` source (a `scoped_session`, or any callable that
    returns the request's session), the `metadata` of your tables and the `engine`. With
    `SQLALCHEMY_BINDS` give `metadata=db.metadatas["a bind"]`: the bind of the rows that have
    emails.

    Settings are read from `app.config`: every `OUTBOX_…` key of `domain.config.settings.Settings`.
    Where `OUTBOX_SERVERS` lists no servers, Flask-Mail's `MAIL_SERVER`, `MAIL_PORT`,
    `MAIL_USERNAME`, `MAIL_PASSWORD`, `MAIL_USE_TLS` and `MAIL_USE_SSL` are read, too. The Celery
    app is that of `outbox.celery_config.configure`, or that in `app.extensions["celery"]`. It is
    looked up when it is needed. A verb that writes passes over locked emails. For any other locked
    row it waits two seconds at most, and then raises RowsLocked.
    """

    def __init__(self, app: Flask | None = None, db: Any = None, **options: Any) -> None:
        super().__init__()
        self._app: Flask | None = None
        if app is not None:
            self.init_app(app, db, **options)

    def init_app(
        self,
        app: Flask,
        db: Any = None,
        *,
        session: SessionSource | scoped_session[Any] | None = None,
        metadata: MetaData | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Add our tables to the metadata and the `flask outbox` commands to the app.

        Raises ConfigurationError for a setting that is unknown or wrong, and for a `sessionmaker`
        in the place of a session source. Raises it too for a database driver or a pool with which
        the outbox cannot work, and for an app that has an outbox already. Settings that are most
        likely a mistake are logged.
        """
        if isinstance(app.extensions.get("outbox"), State):
            raise ConfigurationError(_TWICE)
        if db is not None:
            metadata = metadata or metadata_of(db)
        if metadata is None or (db is None and engine is None):
            raise ConfigurationError("give init_app db=…, or metadata=… and engine=…")
        if not_given := session is None and db is not None:
            session = db.session
        refuse_maker(session)
        if is_known(app, engine):
            savepoints.prepared(engine_of(app, db, engine, metadata))
        runtime = make_runtime(app, db, engine, metadata)
        savepoints.listen()
        if isinstance(session, scoped_session):
            left_open.watch(app, session)
        app.extensions["outbox"] = State(
            runtime=runtime, find_source=lambda: db.session if not_given else session
        )
        app.cli.add_command(commands)
        take(app)
        attach(app, self._previews, runtime.settings.previews)
        self._app = app

    def enqueue(
        self,
        message: AnyMessage,
        *,
        session: AnySession | None = None,
        priority: Priority | str | int = Priority.NORMAL,
        send_at: datetime | None = None,
        expires_at: datetime | None = None,
        key: str | None = None,
        tag: str | None = None,
        on_unknown: OnUnknown | str | None = None,
        max_attempts: int | None = None,
        envelope_from: str | None = None,
        auto_submitted: bool | str = False,
        unsubscribe: URLs | None = None,
        redact: Redact | None = None,
    ) -> Email:
        """Write an email into the session's transaction: no commit, no network.

        It is sent if and only if that transaction commits. Bounces go to `envelope_from` instead of
        the message's sender. "<>" asks for no bounces, and is for automatic messages only
        (RFC 5321 §4.5.5). `auto_submitted` says that no person wrote the message (RFC 3834): True
        means "auto-generated", and the RFC's other words are taken as text. `unsubscribe` is the
        https URL for the one-click unsubscription (RFC 8058) of the message's only recipient. It
        may be a pair of that URL and a mailto URL. `redact="when sent"` is for one-time codes: the
        body goes in the transaction that records the email's end, whatever the end is.

        An `expires_at` that has passed is refused. It is compared with this host's clock, by which
        you computed it; the outbox itself goes by the database's clock.

        Raises InvalidMessage, KeyConflict or KeyContention. Then nothing of the email is written,
        and the transaction stays usable.
        """
        options = Options.check(
            priority=priority,
            send_at=send_at,
            expires_at=expires_at,
            key=key,
            tag=tag,
            on_unknown=on_unknown,
            max_attempts=max_attempts,
            envelope_from=envelope_from,
            redact=redact,
            now=lambda: state_of(self._app).clock(),
        )
        added_headers = AddedHeaders.check(auto_submitted=auto_submitted, unsubscribe=unsubscribe)
        return self._writing(session, options, added_headers).enqueue(message)

    def enqueue_many(
        self,
        messages: AnyMessage | Iterable[AnyMessage],
        recipients: Iterable[Recipient] | None = None,
        *,
        session: AnySession | None = None,
        priority: Priority | str | int = Priority.BULK,
        send_at: datetime | None = None,
        expires_at: datetime | None = None,
        key: Callable[[Any], str] | None = None,
        tag: str | None = None,
        on_unknown: OnUnknown | str | None = None,
        max_attempts: int | None = None,
        envelope_from: str | None = None,
        auto_submitted: bool | str = False,
        unsubscribe: URLOf | None = None,
        fields: Fields = None,
        redact: Redact | None = None,
    ) -> int:
        """Write many emails into the session's transaction; return how many are new.

        Give either an iterable of messages, or one message and its `recipients`: addresses, or
        (name, address) pairs. With `recipients` the content is stored once, and each recipient gets
        an email with a To of their own.

        `key`, `unsubscribe` and `fields` are functions. They get the recipient's address, or the
        message where you give an iterable of messages. `key` returns the email's idempotency key.
        `unsubscribe` returns the reader's own URL, or a pair as in `enqueue`. `fields` returns the
        values for `{{ name }}` in the texts and the subject; it needs `recipients`. Without it a
        `{{ name }}` is refused; `fields=False` sends it as it stands. The other arguments are as in
        `enqueue`.

        All emails are written, or none. The iterables are read in chunks; with a `key` they are
        read as a whole and sorted first. InvalidMessage and KeyConflict have the `index` in the
        list and the `value` that stands there.
        """
        options = Options.check(
            priority=priority,
            send_at=send_at,
            expires_at=expires_at,
            tag=tag,
            on_unknown=on_unknown,
            max_attempts=max_attempts,
            envelope_from=envelope_from,
            redact=redact,
            now=lambda: state_of(self._app).clock(),
        )
        if unsubscribe is not None and not callable(unsubscribe):
            raise InvalidMessage(
                "unsubscribe", "must be a function: each reader has a URL of their own"
            )
        check_fields(fields)
        added_headers = AddedHeaders.check(auto_submitted=auto_submitted, unsubscribe=unsubscribe)
        if isinstance(recipients, (str, bytes)):
            raise InvalidMessage("recipients", "must be a list of addresses, and not one text")
        writing = self._writing(session, options, added_headers)
        if recipients is not None:
            return writing.enqueue_shared(messages, recipients, key, fields)
        if fields:
            raise InvalidMessage("fields", "need one message and its recipients")
        if isinstance(messages, (flask_mail.Message, Message)):
            raise InvalidMessage("recipients", "are required with a single message")
        return writing.enqueue_many(messages, key)

    def cancel(
        self,
        *,
        id: int | None = None,  # noqa: A002  (the public name)
        key: str | None = None,
        tag: str | None = None,
        session: AnySession | None = None,
    ) -> int:
        """Withdraw unsent emails by id, key or tag in the session's transaction; return how many.

        It is safe against a concurrent claim: once you commit, no email that is counted will be
        sent. An email in doubt ends `unknown` and is not counted: after your commit `email_unknown`
        tells of it. Raises InvalidMessage for an id, key or tag that no email can have, and unless
        exactly one of them is given; the transaction stays usable.
        """
        if (id, key, tag).count(None) != 2:
            raise InvalidMessage("id", "give exactly one of id, key and tag")
        names = {"key": check_name("key", key, MAX_KEY), "tag": check_name("tag", tag, MAX_TAG)}
        which = check_id(id)
        state = state_of(self._app)
        chosen, database = state.session(session), state.runtime.database
        with state.writing(chosen) as connection, noted(connection) as endings:
            total = withdraw(connection, database, id=which, **names)
        state.note_withdrawn(chosen, connection, total)
        if endings:
            cancelled_unknown.note(chosen, endings, connection=connection, tell=database.tell)
        return total

    def counts(self, tag: str | None = None) -> dict[Status, int]:
        """Return the number of committed emails in each status that occurs.

        Raises ConfigurationError within a transaction on a SQLite database in memory.
        """
        tag = check_name("tag", tag, MAX_TAG)
        database = state_of(self._app).runtime.database
        return database.read(lambda connection: reports.counts(connection, database, tag))

    @property
    def discarded(self) -> int:
        """The number of emails that this process enqueued in sessions closed without a commit."""
        return state_of(self._app).discarded

    def _writing(
        self, session: AnySession | None, options: Options, added_headers: AddedHeaders
    ) -> Writing:
        state = state_of(self._app)
        found = state.session(session)
        return Writing(state=state, session=found, options=options, added_headers=added_headers)
