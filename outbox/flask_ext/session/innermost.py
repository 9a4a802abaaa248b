"""Which of a session's transactions it is in: what belongs to a savepoint goes with it."""

from __future__ import annotations

from sqlalchemy.orm import Session, SessionTransaction


def innermost(session: Session) -> SessionTransaction | None:
    """Return the savepoint in which the session is, or else its transaction."""
    return session.get_nested_transaction() or session.get_transaction()
