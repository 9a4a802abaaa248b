"""Follows what a session has not committed: wakes a sweep after the commit, or tells of its loss.

Emails that it enqueued, and those that it withdrew, are followed each by themselves.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from .innermost import innermost

_log = logging.getLogger("outbox")
ENQUEUED, WITHDRAWN = _KINDS = ("outbox", "outbox.withdrawn")
"""What is followed: the keys in the session's `info`."""

CLOSED = "the session was closed without a commit"
ABANDONED = (
    "the process ends, and the session was neither committed nor closed, as where an app context"
    " is pushed and not popped"
)
"""How emails are lost."""


@dataclass(kw_only=True, eq=False)
class _Pending:
    emails: dict[SessionTransaction | None, int] = field(default_factory=dict)
    """How many each transaction holds: the session's own, or a savepoint that may roll back."""
    wake: Callable[[], None] | None = None  # None while none of them is due at once
    discarded: Callable[[int, str], None]  # is told how they were lost, too
    thread: int | None = None  # that noted last; None once somebody has told of them
    kind: str

    def add(self, transaction: SessionTransaction | None, emails: int) -> None:
        self.emails[transaction] = self.emails.get(transaction, 0) + emails

    @property
    def total(self) -> int:
        return sum(self.emails.values())


_open: WeakSet[_Pending] = WeakSet()
"""What live sessions of this process hold. A child of a fork does not answer for its parent's."""


def note(
    session: Session,
    emails: int,
    *,
    kind: str = ENQUEUED,
    wake: Callable[[], None] | None = None,
    discarded: Callable[[int, str], None],
) -> None:
    """Note emails that were added to, or withdrawn in, the session's transaction.

    If they are lost, `discarded` is called with their number, and with how they were lost.
    """
    pending = session.info.get(kind)
    if pending is None:
        new = _Pending(discarded=discarded, kind=kind)
        pending = session.info[kind] = new
    pending.add(innermost(session), emails)
    pending.wake = wake or pending.wake
    pending.thread = threading.get_ident()
    _open.add(pending)


def left_open(session: Session) -> int:
    """Return how many emails the session's transaction has enqueued: the caller tells of them."""
    pending: _Pending | None = session.info.get(ENQUEUED)
    if pending is None:
        return 0
    pending.thread = None
    return pending.total


def left_by_thread(kind: str = ENQUEUED) -> int:
    """Return how many emails are in open sessions in which this thread was the last to note some.

    The caller tells of them: a session counts again once more are noted in it.
    """
    emails, thread = 0, threading.get_ident()
    for pending in _all_open():
        if pending.kind == kind and pending.thread == thread:
            pending.thread = None
            emails += pending.total
    return emails


def abandon() -> None:
    """Tell of all emails in open sessions, because the process ends."""
    for pending in _all_open():
        emails = pending.total
        pending.emails.clear()
        if emails:
            pending.discarded(emails, ABANDONED)


def _all_open() -> list[_Pending]:
    for _ in range(10):
        try:
            return list(_open)
        except RuntimeError:  # another thread has enqueued meanwhile
            continue
    return []


def _after_commit(session: Session) -> None:
    # Also fired when a savepoint is released: that commits nothing.
    if not _followed(session) or session.in_nested_transaction():
        return
    for kind in _followed(session):
        pending: _Pending = session.info.pop(kind)
        if pending.wake is not None and pending.total:
            _wake(pending.wake)


def _wake(wake: Callable[[], None]) -> None:
    try:
        wake()
    except Exception as error:  # noqa: BLE001  (the commit succeeded and must not raise)
        _log.warning("outbox: no sweep was asked for (%s)", type(error).__name__)


def _after_rollback(session: Session) -> None:
    # Also fired for a savepoint: what was enqueued outside of it still waits.
    for kind in _followed(session):
        session.info[kind].emails.pop(innermost(session), None)


def _followed(session: Session) -> list[str]:
    return [kind for kind in _KINDS if kind in session.info]


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    # Emails that are left here were not rolled back. Those of a savepoint are its parent's now.
    # `close()` of the session fires no rollback event, so what the outermost transaction still has
    # was not committed.
    for kind in _followed(session):
        emails = session.info[kind].emails.pop(transaction, 0)
        if transaction.parent is not None:
            session.info[kind].add(transaction.parent, emails)
            continue
        pending: _Pending = session.info.pop(kind)
        if emails:
            pending.discarded(emails, CLOSED)


def _listen() -> None:
    event.listen(Session, "after_commit", _after_commit)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_open.clear)


_listen()
