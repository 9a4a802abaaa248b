"""Follows what a session has not committed: wakes a sweep after the commit, or tells of its loss.

Emails that it enqueued, and those that it withdrew, are followed each by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, SessionTransaction

from . import outer_transaction
from .innermost import innermost
from .pending import CLOSED, ENQUEUED, KINDS, Pending, tell_of_dropped


def note(
    session: Session,
    emails: int,
    *,
    connection: Connection,
    kind: str = ENQUEUED,
    wake: Callable[..., None] | None = None,
    discarded: Callable[[int, str], None],
) -> None:
    """Note emails that were added to, or withdrawn in, the session's transaction.

    If they are lost, `discarded` is called with their number, and with how they were lost.
    """
    tell_of_dropped()
    pending: Pending | None = session.info.get(kind)
    if pending is None:
        pending = session.info[kind] = Pending(discarded=discarded, kind=kind)
        outer_transaction.watch(session, connection, pending)
    pending.note(innermost(session), emails)
    pending.wake = wake or pending.wake


def left_open(session: Session) -> int:
    """Return how many emails the session's transaction has enqueued: the caller tells of them.

    What was told is told again only once more are noted.
    """
    pending: Pending | None = session.info.get(ENQUEUED)
    if pending is None or pending.is_unknown or pending.thread is None:
        return 0
    pending.thread = None
    return pending.total


def _after_commit(session: Session) -> None:
    if not _followed(session):
        return
    # Also fired when a savepoint is released: that commits nothing.
    if (savepoint := session.get_nested_transaction()) is not None:
        for kind in _followed(session):
            session.info[kind].release(savepoint)
        return
    for kind in _followed(session):
        pending: Pending = session.info.pop(kind)
        if pending.outer is not None and pending.outer.is_open:
            pending.outer.take(pending)
        else:
            pending.commit()


def _after_rollback(session: Session) -> None:
    # Also fired for a savepoint: what was enqueued outside of it still waits.
    for kind in _followed(session):
        pending: Pending = session.info[kind]
        if pending.is_unknown:  # the commit may have been before it
            session.info.pop(kind).lose(CLOSED)
        else:
            pending.roll_back(innermost(session))


def _followed(session: Session) -> list[str]:
    return [kind for kind in KINDS if kind in session.info]


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    # Emails that are left here were neither rolled back nor committed or released. A close of the
    # session fires no event of its own.
    for kind in _followed(session):
        if transaction.parent is not None:
            session.info[kind].close(transaction)
            continue
        pending: Pending = session.info.pop(kind)
        emails, undone = pending.settle(), pending.undone.pop(transaction, 0)
        if pending.outer is None or outer_transaction.is_undone(transaction, pending.outer):
            emails, undone = 0, undone + emails
        if undone:
            pending.add(None, undone)
            pending.lose(CLOSED)
        if emails and pending.outer is not None and pending.outer.is_open:
            pending.add(None, emails)
            pending.outer.take(pending)


def _listen() -> None:
    # Before the app's own listeners: behind one that raises, SQLAlchemy calls none.
    event.listen(Session, "after_commit", _after_commit, insert=True)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
