"""Tells of emails that a `cancel` ended as unknown or sent, after the commit of its session.

The session is the caller's. A rollback, also of a savepoint, drops what was noted within it. Where
the session has joined a transaction of its connection, the end of that one counts. SQLAlchemy tells
of its commit before that is sent. So it is told at the thread's next look: where the connection
begins another transaction, at the next `cancel`, or at the end of a request, task or process.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from celery.signals import task_postrun
from flask import appcontext_popped
from sqlalchemy import Connection, Dialect, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.orm import Session, SessionTransaction

from ...store.connection.endings import Ending
from . import outer_transaction
from .innermost import innermost
from .pending import Outer

_KEY = "outbox.endings"

_of_thread = threading.local()
"""What outer transactions of a thread have ended at their commit, and nobody was told of yet."""


@dataclass(kw_only=True, eq=False)
class _Endings:
    tell: Callable[[Iterable[Ending]], None]
    outer: Outer | None
    endings: dict[SessionTransaction | None, list[Ending]] = field(default_factory=dict)
    is_committed: bool = False

    def add(self, transaction: SessionTransaction | None, endings: Iterable[Ending]) -> None:
        self.endings.setdefault(transaction, []).extend(endings)

    @property
    def total(self) -> int:
        return sum(map(len, self.endings.values()))

    def settle(self) -> int:
        """Forget them all: they were undone, or somebody else tells of them."""
        emails = self.total
        self.endings.clear()
        return emails

    def left(self) -> _Endings:
        """Return the same without the session, which has ended."""
        left = _Endings(tell=self.tell, outer=self.outer)
        left.add(None, (one for each in self.endings.values() for one in each))
        self.endings.clear()
        return left

    def commit(self, *_: float) -> None:
        """Have it told behind the commit of the outer transaction, which is sent now."""
        connection = None if self.outer is None else self.outer.connection
        if connection is None or not self.total:
            return
        committed = _Committed(ref(connection), id(connection.get_transaction()), self.left())
        _committed().append(committed)
        event.listen(connection, "begin", _tell_of_committed)


@dataclass(frozen=True)
class _Committed:
    connection: ref[Connection]
    transaction: int  # its `id`: it would hold the connection
    endings: _Endings

    def is_of(self, connection: Connection) -> bool:
        """Return whether the connection is still in that commit."""
        is_its = self.connection() is connection
        return is_its and id(connection.get_transaction()) == self.transaction


def _committed() -> list[_Committed]:
    found: list[_Committed] = _of_thread.__dict__.setdefault("committed", [])
    return found


def _tell_of_committed(*_: Any, **__: Any) -> None:
    found = _committed()
    while found:
        endings = found.pop(0).endings
        endings.tell(endings.endings[None])


def _note_error(context: ExceptionContext) -> None:
    if (connection := context.connection) is not None and (found := _committed()):
        found[:] = [one for one in found if not one.is_of(connection)]


def note(
    session: Session,
    endings: Iterable[Ending],
    *,
    connection: Connection,
    tell: Callable[[Iterable[Ending]], None],
) -> None:
    """Note emails that the session's transaction ended; `tell` is called after its commit.

    The session is usable again by then, so no error of `tell` comes out of the commit.
    """
    _tell_of_committed()
    pending: _Endings | None = session.info.get(_KEY)
    if pending is None:
        outer = outer_transaction.outer_of(session, connection)
        pending = session.info[_KEY] = _Endings(tell=tell, outer=outer)
        if outer is not None:
            outer.follow(pending)
    pending.add(innermost(session), endings)


def _after_commit(session: Session) -> None:
    if _KEY not in session.info:
        return
    pending: _Endings = session.info[_KEY]
    # Also fired when a savepoint is released: that commits nothing.
    if (savepoint := session.get_nested_transaction()) is None:
        pending.is_committed = True
    else:
        pending.add(savepoint.parent, pending.endings.pop(savepoint, []))


def _after_rollback(session: Session) -> None:
    if _KEY in session.info:
        session.info[_KEY].endings.pop(innermost(session), None)


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if _KEY not in session.info:
        return
    pending: _Endings = session.info[_KEY]
    if transaction.parent is not None:  # what a savepoint has not released is undone
        pending.endings.pop(transaction, None)
        return
    del session.info[_KEY]
    if pending.outer is None:
        if pending.is_committed:
            pending.tell(pending.endings.pop(transaction, []))
    elif pending.outer.is_open and (
        pending.is_committed or not outer_transaction.is_undone(transaction, pending.outer)
    ):
        pending.outer.take(pending)


def _listen() -> None:
    # At the import. Later, a listener of the app's might do it, while SQLAlchemy calls all
    # listeners.
    event.listen(Session, "after_commit", _after_commit)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)
    event.listen(Dialect, "handle_error", _note_error)
    appcontext_popped.connect(_tell_of_committed)  # of any app
    task_postrun.connect(_tell_of_committed)
    atexit.register(_tell_of_committed)
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=lambda: _committed().clear())


_listen()
