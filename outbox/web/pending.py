"""What a session has enqueued and not yet committed: nudge after its commit, tell of its loss."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

_log = logging.getLogger("outbox")
_KEY = "outbox"


@dataclass(kw_only=True)
class _Pending:
    mails: int = 0
    wake: Callable[[], None] | None = None  # None while nothing of it is due at once
    discarded: Callable[[int], None]
    rolled_back: bool = False


def note(
    session: Session,
    mails: int,
    *,
    wake: Callable[[], None] | None,
    discarded: Callable[[int], None],
) -> None:
    """Remember mails that were added to the session's transaction."""
    pending = session.info.setdefault(_KEY, _Pending(discarded=discarded))
    pending.mails += mails
    pending.wake = wake or pending.wake


def _after_commit(session: Session) -> None:
    # Also fired when a savepoint is released: that commits nothing.
    if _KEY not in session.info or session.in_nested_transaction():
        return
    pending: _Pending = session.info.pop(_KEY)
    if pending.wake is not None:
        try:
            pending.wake()
        except Exception as error:  # noqa: BLE001  (it would come out of a commit that succeeded)
            _log.warning("outbox: no nudge (%s)", type(error).__name__)


def _after_rollback(session: Session) -> None:
    # A savepoint's rollback comes here too: what was enqueued outside of it still waits.
    if _KEY in session.info and not session.in_nested_transaction():
        session.info[_KEY].rolled_back = True


def _after_transaction_end(session: Session, transaction: Any) -> None:
    # `close()` fires no rollback event, so what is left here was neither committed nor rolled back.
    if transaction.parent is None and _KEY in session.info:
        pending: _Pending = session.info.pop(_KEY)
        if not pending.rolled_back and pending.mails:
            pending.discarded(pending.mails)


def _listen() -> None:
    event.listen(Session, "after_commit", _after_commit)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
