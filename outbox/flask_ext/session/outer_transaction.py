"""Follows the transaction of a connection that a session has joined, to its true end.

Such a session's commit, or its close, may leave the connection's transaction as it is. Then nobody
knows yet whether its emails exist: the app ends that transaction itself, mostly on the connection.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, NestedTransaction, Transaction, event
from sqlalchemy.orm import Session, SessionTransaction

from .pending import Outer, Pending

_SOON = 0.1
"""Seconds until the sweep. SQLAlchemy tells of a connection's commit before it commits."""

_outers: WeakKeyDictionary[Connection, Outer] = WeakKeyDictionary()


def watch(session: Session, connection: Connection, pending: Pending) -> None:
    """Follow the connection if not the session's own commit decides about what is pending."""
    transaction, ends_with_it = _core(session.get_transaction(), connection)
    if transaction is None or (ends_with_it and not isinstance(transaction, NestedTransaction)):
        return
    outer = _outers.get(connection)
    if outer is None:
        outer = _outers[connection] = Outer(connection)
        event.listen(connection, "commit", _commit)
        event.listen(connection, "commit_twophase", _commit)
        event.listen(connection, "rollback", _roll_back)
        event.listen(connection, "rollback_twophase", _roll_back)
    outer.follow(pending)


def is_undone(transaction: SessionTransaction, outer: Outer) -> bool:
    """Return whether the session's close has rolled back its part of the outer transaction."""
    connection = outer.connection
    return connection is not None and _core(transaction, connection)[1]


def _core(
    transaction: SessionTransaction | None, connection: Connection
) -> tuple[Transaction | None, bool]:
    """Return the connection's transaction that the session is in, and whether the session ends it.

    SQLAlchemy has no public name for it.
    """
    found: Any = getattr(transaction, "_connections", {}).get(connection)
    return (None, False) if found is None else (found[1], found[2])


def _commit(connection: Connection, *_: Any) -> None:
    for pending in _ended(connection):
        pending.commit(_SOON)


def _roll_back(connection: Connection, *_: Any) -> None:
    for pending in _ended(connection):
        pending.settle()


def _ended(connection: Connection) -> list[Pending]:
    outer = _outers.get(connection)
    return [] if outer is None else outer.end()
