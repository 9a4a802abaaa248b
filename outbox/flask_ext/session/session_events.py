"""Follows what a session has not committed: wakes a sweep after the commit, or tells of its loss.

Emails that it enqueued, and those that it withdrew, are followed each by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from .innermost import innermost

_log = logging.getLogger("outbox")
ENQUEUED, WITHDRAWN = _KINDS = ("outbox", "outbox.withdrawn")
"""What is followed: the keys in the session's `info`."""


@dataclass(kw_only=True)
class _Pending:
    emails: dict[SessionTransaction | None, int] = field(default_factory=dict)
    """How many each transaction holds: the session's own, or a savepoint that may roll back."""
    wake: Callable[[], None] | None = None  # None while none of them is due at once
    discarded: Callable[[int], None]

    def add(self, transaction: SessionTransaction | None, emails: int) -> None:
        self.emails[transaction] = self.emails.get(transaction, 0) + emails


def note(
    session: Session,
    emails: int,
    *,
    kind: str = ENQUEUED,
    wake: Callable[[], None] | None = None,
    discarded: Callable[[int], None],
) -> None:
    """Note emails that were added to, or withdrawn in, the session's transaction."""
    pending = session.info.setdefault(kind, _Pending(discarded=discarded))
    pending.add(innermost(session), emails)
    pending.wake = wake or pending.wake


def uncommitted(session: Session) -> int:
    """Return how many emails the session's transaction has enqueued."""
    pending: _Pending | None = session.info.get(ENQUEUED)
    return sum(pending.emails.values()) if pending else 0


def _after_commit(session: Session) -> None:
    # Also fired when a savepoint is released: that commits nothing.
    if not _followed(session) or session.in_nested_transaction():
        return
    for kind in _followed(session):
        pending: _Pending = session.info.pop(kind)
        if pending.wake is not None and any(pending.emails.values()):
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
            pending.discarded(emails)


def _listen() -> None:
    event.listen(Session, "after_commit", _after_commit)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
