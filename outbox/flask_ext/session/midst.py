"""Refuses a commit during an `enqueue_many`, or after one that undid the writes of others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from ...domain.errors import ConfigurationError
from ...store.session.all_or_none import ENDED
from .innermost import innermost

_KEY = "outbox.midst"
_SPOILED = "outbox.spoiled"

_LACKS = (
    "enqueue_many failed and was undone, together with all that was written over its session while"
    " it read its messages or recipients: roll the session back"
)


@contextmanager
def midst(session: Session) -> Iterator[None]:
    """Refuse a commit of the session within the block, where the user's iterables are read."""
    before = session.info.get(_KEY, False)
    session.info[_KEY] = True
    try:
        yield
    finally:
        session.info[_KEY] = before


def settle(session: Session) -> None:
    """Flush the session, as the caller's next query would do anyway."""
    is_flushing = getattr(session, "_flushing", False)  # SQLAlchemy has no public name for it
    if session.autoflush and not is_flushing:
        session.flush()


def spoil(session: Session) -> None:
    """Refuse the commit of the session's transaction, or of its savepoint: writes are missing."""
    session.info.setdefault(_SPOILED, set()).add(innermost(session))


def _before_commit(session: Session) -> None:
    if innermost(session) in session.info.get(_SPOILED, ()):
        raise ConfigurationError(_LACKS)
    # Also fired when a savepoint is released: that commits nothing.
    if session.info.get(_KEY) and not session.in_nested_transaction():
        raise ConfigurationError(ENDED)


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    session.info.get(_SPOILED, set()).discard(transaction)


def _listen() -> None:
    event.listen(Session, "before_commit", _before_commit)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
