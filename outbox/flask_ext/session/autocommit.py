"""Tells of an engine in autocommit before an email meets it: `enqueue` asks its own connection."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection, Engine, Insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import scoped_session

from ...domain.errors import ConfigurationError
from ...store.connection.drivers import in_memory
from ...store.connection.facts import facts_of
from ...store.session.caller_transaction import refuse_autocommit
from .source import SessionSource


def autocommit_errors(own: Engine, source: SessionSource | None, write: Insert) -> list[str]:
    """Return what is wrong with the outbox's `own` engine, and with that of the app's sessions.

    A source that is a function may need a request. So only a `scoped_session` is asked, for a
    session that is in no registry. A database in memory may be in the midst of a transaction.
    """
    engines = [own, *_engine_of_sessions(source, write)]
    refusals = [_refusal(one) for one in dict.fromkeys(engines) if not in_memory(one)]
    return list(dict.fromkeys(text for text in refusals if text))


def _engine_of_sessions(source: SessionSource | None, write: Insert) -> list[Engine]:
    if not isinstance(source, scoped_session):
        return []
    with suppress(SQLAlchemyError):  # it has no engine for the outbox's tables
        bind = source.session_factory().get_bind(clause=write)
        return [bind] if isinstance(bind, Engine) else []
    return []


def _refusal(engine: Engine) -> str | None:
    # A new connection: SQLAlchemy takes one that had another isolation for a while, as the outbox's
    # own have, out of the autocommit of its driver.
    pool = engine.pool.recreate()
    refused = engine.dialect.loaded_dbapi.Error  # a pool without its engine lets it out as it is
    try:
        with suppress(DBAPIError, refused), Connection(engine, pool.connect()) as connection:
            refusal = _refusal_on(connection)
            if refusal:  # a listener of the app's may begin what SQLite's driver does not
                connection.begin()
                refusal = _refusal_on(connection)
            return refusal
    finally:
        pool.dispose()
    return None  # the database is away, which others tell


def _refusal_on(connection: Connection) -> str | None:
    try:
        refuse_autocommit(connection, facts_of(connection.dialect.name))
    except ConfigurationError as refusal:
        return str(refusal)
    return None
