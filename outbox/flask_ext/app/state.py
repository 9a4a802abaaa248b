"""The extension's state for one app, and how it finds the app's sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial

from flask import Flask, current_app, has_app_context
from sqlalchemy import Connection, Insert, insert
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from ...domain.config.enqueue_options import Reading
from ...domain.counted import counted
from ...domain.errors import ConfigurationError
from ...store.connection.drivers import in_memory
from ...store.connection.psycopg.prepared_statements import unprepared
from ...store.hidden_values import VALUES_HIDDEN
from ...store.session.caller_transaction import refuse_autocommit
from ...store.session.same_database import Identity
from ...worker.process.runtime import Runtime
from ..session import one_commit, session_events, undone
from ..session.autocommit import autocommit_errors
from ..session.pending import INTERRUPTED, WITHDRAWN, tell_of_dropped
from ..session.reading import any_has_written
from ..session.source import AnySession, SessionSource, current, one_of
from .origin import origin

_log = logging.getLogger("outbox")

_OWN_WRITE = (
    "a session of this thread has written, and SQLite has one writer at a time: commit or roll"
    " back first, because this call works in a transaction of its own"
)

_COMMITTED = (
    "the session has just committed, as in a listener of after_commit or models_committed: call"
    " this before the commit, in the view or in a listener of before_commit or"
    " before_models_committed; or call it with session=… of another session, and commit that one"
)

previewing: ContextVar[bool] = ContextVar("outbox_previewing", default=False)
"""Whether a preview is being made: it is only shown, so nothing may be enqueued meanwhile."""


class MissingApp(ConfigurationError, RuntimeError):
    """No app is current, or it has no outbox."""


def _host_clock() -> Reading:
    return Reading(datetime.now(UTC), "this host's clock")


@dataclass(kw_only=True)
class State:
    """The value of `app.extensions["outbox"]`."""

    runtime: Runtime
    find_source: Callable[[], SessionSource | None]
    identity: Identity = field(default_factory=Identity)
    clock: Callable[[], Reading] = _host_clock  # by which callers compute times; tests freeze it
    lost: int = 0  # emails enqueued in sessions that nobody committed, as far as it was told

    @property
    def source(self) -> SessionSource | None:
        """Where the app's sessions come from. Tests put another into Flask-SQLAlchemy's place."""
        return self.find_source()

    def session(self, given: AnySession | None = None) -> Session:
        """Return the session to write in: the given one, or the current request's.

        Raises ConfigurationError for anything that is not a session the caller can commit.
        """
        if given is not None:
            return one_of(given)
        source = self.source
        if source is None:
            raise RuntimeError(
                "the outbox has no session: give session=… to the call, or to init_app"
            )
        return current(source)

    def connection(self, session: Session) -> Connection:
        """Return the connection of the session's transaction to the outbox's tables.

        Raises ConfigurationError where it is in autocommit, or leads to another database or other
        schemas than the outbox's engine does, or where the session is behind its commit.
        """
        try:
            connection = session.connection(bind_arguments={"clause": self._write})
        except InvalidRequestError as error:
            if "'committed' state" in str(error):  # SQLAlchemy has no class for it
                raise ConfigurationError(_COMMITTED) from error
            raise
        undone.watch(connection)
        database = self.runtime.database
        refuse_autocommit(connection, database.facts)
        self.identity.refuse_another(connection, database)
        return connection

    @contextmanager
    def writing(self, session: Session) -> Iterator[Connection]:
        """Give the connection for a block that writes in the session's transaction.

        Raises ConfigurationError as `connection` does, and where the session has written rows to
        another database. If it writes them after the block, its flush or its commit raises. An
        error of a statement in the block does not tell its values.
        """
        connection = self.connection(session)
        may_part = self.runtime.settings.allow_two_commits
        if not may_part:
            one_commit.refuse_apart(session, connection)
        with self.runtime.database.tables_needed, VALUES_HIDDEN, unprepared(connection):
            yield connection
        if not may_part:
            one_commit.watch(session, connection)

    def autocommit_errors(self) -> list[str]:
        """Return what `check` tells of engines in autocommit, where `enqueue` would refuse."""
        return autocommit_errors(self.runtime.database.engine, self.source, self._write)

    @cached_property
    def _write(self) -> Insert:
        # A statement, not the table: so a session that routes its statements chooses its writer.
        return insert(self.runtime.tables.email)

    @property
    def discarded(self) -> int:
        """How many emails were enqueued in sessions that nobody committed."""
        tell_of_dropped()
        return self.lost

    @property
    def writer_runtime(self) -> Runtime:
        """The runtime for a call that writes. ConfigurationError as `refuse_own_write`."""
        self.refuse_own_write()
        return self.runtime

    def refuse_own_write(self) -> None:
        """Raise ConfigurationError if a write of ours would wait for the caller's own session.

        SQLite's lock is the session's until its commit, which comes after this call: the wait would
        be in vain, and end in an error. Any session of this thread counts, whatever made it. A
        database in memory is left to `Database.refuse_busy`: there the driver counts our own writes
        as the session's.
        """
        database = self.runtime.database
        if not database.facts.one_writer or in_memory(database.engine):
            return
        if any_has_written(database.engine):
            raise ConfigurationError(_OWN_WRITE)

    def discard(self, emails: int, how: str, origin: str = "") -> None:
        """Count and log emails that were lost because nobody committed them: `how` says the rest.

        `origin` is the view, task or command that enqueued the first of them.
        """
        if how == INTERRUPTED:
            _tell_unknown(
                counted(emails, "email exists", "emails exist"), "enqueue", emails, origin
            )
            return
        self.lost += emails
        _log.warning(
            "outbox: %s discarded: %s. That is right after an error or a rollback; otherwise call"
            " its commit() after enqueue%s",
            counted(emails, "email was", "emails were"),
            how,
            f" in {origin}" if origin else "",
            extra={"outbox": {"event": "emails_discarded", "emails": emails, "origin": origin}},
        )

    def note_withdrawn(self, session: Session, connection: Connection, emails: int) -> None:
        """Have the log tell of emails that the session withdrew, if nobody commits it."""
        if emails:
            kept = partial(_tell_kept, origin=origin())
            session_events.note(
                session, emails, connection=connection, kind=WITHDRAWN, discarded=kept
            )


def _tell_kept(emails: int, how: str, origin: str) -> None:
    """Log emails whose withdrawal nobody has committed: `how` says the rest."""
    if how == INTERRUPTED:
        counts = counted(emails, "email is withdrawn", "emails are withdrawn")
        _tell_unknown(counts, "cancel", emails, origin)
        return
    _log.warning(
        "outbox: %s not withdrawn after all: %s. That is right after an error or a rollback;"
        " otherwise call its commit() after cancel%s",
        counted(emails, "email is", "emails are"),
        how,
        f" in {origin}" if origin else "",
        extra={"outbox": {"event": "cancellations_discarded", "emails": emails, "origin": origin}},
    )


def _tell_unknown(what: str, call: str, emails: int, origin: str) -> None:
    _log.warning(
        "outbox: the commit was interrupted, so it is not known whether %s: look before you repeat"
        " the %s%s",
        what,
        call,
        f" in {origin}" if origin else "",
        extra={"outbox": {"event": "commit_interrupted", "emails": emails, "origin": origin}},
    )


def state_of(app: Flask | None = None) -> State:
    """Return the state of the current app, or of `app` outside an app context."""
    found = current_app if has_app_context() else app
    state: State | None = None if found is None else found.extensions.get("outbox")
    if state is None:
        raise MissingApp("the outbox has no app: call outbox.init_app(app, …) first")
    return state


def refuse_in_preview() -> None:
    """Raise ConfigurationError within the function of a preview."""
    if previewing.get():
        raise ConfigurationError("a preview sends nothing: return the message, do not enqueue it")
