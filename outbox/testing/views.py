"""Reads what is committed, and what the current session has written and not committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from flask import current_app, has_app_context
from sqlalchemy import Connection, inspect
from sqlalchemy.orm import Session, scoped_session

from ..flask_ext.app.engines import asked_of
from ..flask_ext.app.state import State
from ..flask_ext.session.source import AnySession, one_of
from ..store.connection.database import Database
from ..store.connection.drivers import in_memory
from ..store.queries import whole_emails
from ..store.queries.whole_emails import Mark, WholeEmail
from ..store.schema.table_names import schema_of

Result = TypeVar("Result")
Work = Callable[[Connection, Database], Result]


class Seen(NamedTuple):
    """Emails by their ids."""

    committed: dict[int, WholeEmail]
    of_session: dict[int, WholeEmail]  # as the session's transaction sees them

    @property
    def all(self) -> list[WholeEmail]:
        """Both in the order of ids; the session's view of an email counts."""
        found = self.committed | self.of_session
        return [found[key] for key in sorted(found)]

    @property
    def uncommitted(self) -> int:
        """How many only the session sees."""
        return len(self.of_session.keys() - self.committed.keys())


def look(state: State, given: AnySession | None, mark: Mark) -> Seen:
    """Return the emails that came after the mark.

    An SQLite database in memory has one connection: what a transaction of the session has written
    counts there as committed.
    """

    def read(connection: Connection, database: Database) -> dict[int, WholeEmail]:
        return {found.id: found for found in whole_emails.later_than(connection, database, mark)}

    committed, of_session = _both(state, given, read)
    if committed is None:
        return Seen(of_session or {}, {})
    return Seen(committed, of_session or {})


def newest(state: State) -> Mark:
    """Return the mark of the newest email."""

    def read(connection: Connection, database: Database) -> Mark:
        table = database.tables.email
        schema = schema_of(table, database.engine)
        if not inspect(connection).has_table(table.name, schema=schema):
            return Mark()
        return whole_emails.newest(connection, database)

    return max(found for found in _both(state, None, read) if found is not None)


def _both(
    state: State, given: AnySession | None, work: Work[Result]
) -> tuple[Result | None, Result | None]:
    """Return what `work` finds over a connection of ours, and over the session's."""
    database = state.runtime.database
    connection = _connection(state, given)
    if connection is None:
        return database.read(lambda ours: work(ours, database)), None
    theirs = work(connection, database)
    if in_memory(database.engine):
        return None, theirs
    return database.read(lambda ours: work(ours, database)), theirs


def _connection(state: State, given: AnySession | None) -> Connection | None:
    """Return the connection on which uncommitted emails of the session are, or None.

    A session without a transaction has none, and none is begun for it. But it may be bound to a
    connection whose transaction a test's fixture takes back.
    """
    session = _current(state) if given is None else one_of(given)
    if session is not None and session.in_transaction():
        return state.connection(session)
    return outer(state, session)


def outer(state: State, session: Session | None = None) -> Connection | None:
    """Return the connection that a test's fixture has bound the sessions to, or None.

    Whatever such a session commits, the fixture takes back with the connection's own transaction.
    """
    if session is not None or (session := _current(state)) is not None:
        bind = _bind(state, session)
    else:
        try:  # as the app's next session would find it
            source = state.source
            made = source.session_factory() if isinstance(source, scoped_session) else None
            bind = made and _bind(state, made)
        except Exception:  # noqa: BLE001  (the user's own session, which may need a request)
            return None
    return bind if isinstance(bind, Connection) else None


def _bind(state: State, session: Session) -> object:
    ask = partial(session.get_bind, clause=state.runtime.tables.email.insert())
    return asked_of(state.runtime.app, ask)


def _current(state: State) -> Session | None:
    """Return the current session, or None where there is none, as outside of a request.

    A session source that several apps share returns the session of the current app.
    """
    source = state.source
    there = current_app.extensions.get("outbox") if has_app_context() else state
    if there is not state and isinstance(there, State) and there.source is source:
        return None
    try:
        if source is None or (isinstance(source, scoped_session) and not source.registry.has()):
            return None
        return one_of(source())
    except Exception:  # noqa: BLE001  (the user's own function, which may need a request)
        return None
