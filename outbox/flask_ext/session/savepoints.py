"""Puts a session's savepoint on SQLite within a transaction, as on every other database.

Python's driver begins a transaction at the first write, and not at a savepoint. A savepoint that
comes first is then the transaction itself, and its release commits. A later rollback of the session
would not undo it. So a session's engine begins a transaction before the savepoint.

A session on a connection that is in a transaction may begin with a savepoint, and then tells of
itself too late. So the outbox's own engine does so from its first sight on.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session

from ...store.connection.facts import facts_of
from ...store.session.caller_transaction import in_transaction
from .first_use import FirstUse, Wanted


def _after_begin(_session: Session, _transaction: Any, connection: Connection) -> None:
    # This runs before a session's first savepoint is sent, also where the savepoint comes first.
    _savepoints.listen(connection)


def _wanted(connection: Connection | Engine) -> Iterator[Wanted]:
    engine = connection.engine
    if facts_of(engine.dialect.name).begins_late:
        yield engine, "savepoint", _begin


_savepoints = FirstUse(attrgetter("engine"), _wanted)
"""The engines that sessions have used."""


def _begin(connection: Connection, _name: str) -> None:
    if not in_transaction(connection):
        connection.exec_driver_sql("BEGIN")  # locks nothing before the first use, like a savepoint


def prepared(engine: Engine) -> Engine:
    """Return the engine, whose savepoints are within a transaction from now on."""
    if facts_of(engine.dialect.name).begins_late:
        _savepoints.prepare(engine)
    return engine


def listen() -> None:
    """Apply this to the savepoints of all sessions from now on."""
    if not event.contains(Session, "after_begin", _after_begin):
        event.listen(Session, "after_begin", _after_begin)
