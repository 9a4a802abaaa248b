"""A session's savepoint on SQLite lies within a transaction, as on every other database.

Python's driver begins a transaction at the first write, and a savepoint is none: where it comes
first it is the transaction itself, and its release commits. Then a rollback of the session would
leave the order and the email. So a session's engine is told to begin before.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session

from ...store.connection.facts import facts_of
from ...store.session.caller_transaction import in_transaction

_told: WeakSet[Engine] = WeakSet()


def _after_begin(_session: Session, _transaction: Any, connection: Connection) -> None:
    # A session comes here before its first savepoint is sent, whichever of the two is asked first.
    engine = connection.engine
    if facts_of(engine.dialect.name).begins_late and engine not in _told:
        _told.add(engine)
        event.listen(engine, "savepoint", _begin)


def _begin(connection: Connection, _name: str) -> None:
    if not in_transaction(connection):
        connection.exec_driver_sql("BEGIN")  # as a savepoint does: nothing is locked before a use


def listen() -> None:
    """Look after the savepoints of all sessions from now on."""
    if not event.contains(Session, "after_begin", _after_begin):
        event.listen(Session, "after_begin", _after_begin)
