"""Tells of emails that a `cancel` ended as unknown or sent, after the commit of its session.

The session is the caller's. A rollback, also of a savepoint, drops what was noted within it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from ...store.connection.endings import Ending
from .innermost import innermost

_KEY = "outbox.endings"


@dataclass(kw_only=True)
class _Pending:
    tell: Callable[[Iterable[Ending]], None]
    endings: dict[SessionTransaction | None, list[Ending]] = field(default_factory=dict)
    is_committed: bool = False

    def add(self, transaction: SessionTransaction | None, endings: Iterable[Ending]) -> None:
        self.endings.setdefault(transaction, []).extend(endings)


def note(
    session: Session, endings: Iterable[Ending], *, tell: Callable[[Iterable[Ending]], None]
) -> None:
    """Note emails that the session's transaction ended; `tell` is called after its commit.

    The session is usable again by then, so no error of `tell` comes out of the commit.
    """
    session.info.setdefault(_KEY, _Pending(tell=tell)).add(innermost(session), endings)


def _after_commit(session: Session) -> None:
    # Also fired when a savepoint is released: that commits nothing.
    if _KEY in session.info and not session.in_nested_transaction():
        session.info[_KEY].is_committed = True


def _after_rollback(session: Session) -> None:
    if _KEY in session.info:
        session.info[_KEY].endings.pop(innermost(session), None)


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if _KEY not in session.info:
        return
    pending: _Pending = session.info[_KEY]
    ended = pending.endings.pop(transaction, [])
    if transaction.parent is not None:  # a released savepoint: its endings are the parent's now
        pending.add(transaction.parent, ended)
        return
    del session.info[_KEY]
    if pending.is_committed:
        pending.tell(ended)


# At the import. Later, a listener of the app's might do it, while SQLAlchemy calls all listeners.
event.listen(Session, "after_commit", _after_commit)
event.listen(Session, "after_rollback", _after_rollback)
event.listen(Session, "after_transaction_end", _after_transaction_end)
