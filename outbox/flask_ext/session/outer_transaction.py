"""Follows the transaction of a session's connection to its true end.

The commit of a session that has joined it, or its close, may leave it as it is. Then nobody knows
yet whether its emails exist: the app ends that transaction itself, mostly on the connection.

Where the session's own commit decides, it is noted when that is sent. If it is interrupted, or its
reply is lost, nobody knows whether the emails exist.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import (
    Connection,
    Dialect,
    NestedTransaction,
    Transaction,
    TwoPhaseTransaction,
    event,
)
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.orm import Session, SessionTransaction

from ...store.session.pending_writes import Mark
from .pending import Followed, Outer, Pending
from .reading import mark_of as mark_in_session

_SOON = 0.1
"""Seconds until the sweep. SQLAlchemy tells of a connection's commit before it commits."""

_outers: WeakKeyDictionary[Connection, Outer] = WeakKeyDictionary()

_own: WeakKeyDictionary[Connection, WeakSet[Pending]] = WeakKeyDictionary()
"""What is pending where the session's own commit decides."""


def watch(session: Session, connection: Connection, pending: Pending) -> None:
    """Follow what is pending to the end of the connection's transaction."""
    transaction, ends_with_it = _core(session.get_transaction(), connection)
    if transaction is None:
        return
    if ends_with_it and not isinstance(transaction, NestedTransaction):
        # Not the engine: that would cost each statement of transactions without an email.
        is_twophase = isinstance(transaction, TwoPhaseTransaction)
        name = "commit_twophase" if is_twophase else "commit"
        event.listen(connection, name, _begin_commit)
        _own.setdefault(connection, WeakSet()).add(pending)
        return
    pending.outer = _outer_on(connection)
    pending.outer.follow(pending)


def outer_of(session: Session, connection: Connection) -> Outer | None:
    """Return the transaction that the session has joined; None where the session's own decides."""
    transaction, ends_with_it = _core(session.get_transaction(), connection)
    if transaction is None or (ends_with_it and not isinstance(transaction, NestedTransaction)):
        return None
    return _outer_on(connection)


def _outer_on(connection: Connection) -> Outer:
    outer = _outers.get(connection)
    if outer is None:
        outer = _outers[connection] = Outer(connection)
        event.listen(connection, "commit", _commit)
        event.listen(connection, "commit_twophase", _commit)
        event.listen(connection, "rollback", _roll_back)
        event.listen(connection, "rollback_twophase", _roll_back)
    outer.mark = outer.mark or mark_in_session(connection)
    return outer


def mark_of(connection: Connection) -> Mark | None:
    """Return what is known of an outer transaction with emails, also behind its sessions' end."""
    outer = _outers.get(connection)
    return outer.mark if outer is not None and outer.total else None


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
    mark = mark_of(connection)
    if mark is not None and mark.is_undone(connection):
        return  # the commit will be refused
    for pending in _ended(connection):
        pending.commit(_SOON)


def _roll_back(connection: Connection, *_: Any) -> None:
    for pending in _ended(connection):
        pending.settle()


def _ended(connection: Connection) -> list[Followed]:
    outer = _outers.get(connection)
    if outer is None:
        return []
    for mark in (outer.mark, mark_in_session(connection)):  # that of a dropped session stays
        if mark is not None:
            mark.forget_errors()
    return outer.end()


def _begin_commit(connection: Connection, *_: Any) -> None:
    for pending in _own.get(connection, ()):
        if any(one is not None and not one.is_active for one in pending.emails):
            pending.begin_commit()
        else:  # the app commits the connection, and not the session
            pending.commit(_SOON)


def refused(connection: Connection) -> None:
    """Note that a commit of the connection was begun and is not sent."""
    _roll_back(connection)
    for pending in _own.get(connection, ()):
        pending.note_answer(is_known=True)


def _note_error(context: ExceptionContext) -> None:
    # What is no error of the driver's has interrupted it.
    is_known = context.sqlalchemy_exception is not None and not context.is_disconnect
    for pending in _own.get(context.connection, ()) if context.connection is not None else ():
        pending.note_answer(is_known=is_known)


event.listen(Dialect, "handle_error", _note_error)
