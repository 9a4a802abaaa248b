"""No commit in the midst of a call: the emails written so far would stand without the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.orm import Session

from ..domain.errors import ConfigurationError
from ..store.undivided import ENDED

_KEY = "outbox.midst"


@contextmanager
def midst(session: Session) -> Iterator[None]:
    """Refuse a commit of the session in the block. The user's own iterables are read there."""
    before = session.info.get(_KEY, False)
    session.info[_KEY] = True
    try:
        yield
    finally:
        session.info[_KEY] = before


def _before_commit(session: Session) -> None:
    # Also asked when a savepoint is released: that commits nothing.
    if session.info.get(_KEY) and not session.in_nested_transaction():
        raise ConfigurationError(ENDED)


def _listen() -> None:
    event.listen(Session, "before_commit", _before_commit)


_listen()
