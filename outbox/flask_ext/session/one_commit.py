"""Refuses emails that would not commit together with the rows of their transaction.

A session that writes to two databases commits them one after the other. If the second commit fails,
the first one stands. Nobody can tell which of its rows an email belongs to. So rows in another
database than the emails are refused as soon as they are seen: at the enqueue, at a flush or at the
commit.
"""

from __future__ import annotations

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, SessionTransaction

from ...domain.errors import ConfigurationError
from .innermost import innermost
from .reading import begun, writers

_KEY = "outbox.one_commit"

_APART = (
    "the session writes rows to one database and emails to another: these are two commits, and an"
    " email could leave without its order, or never. Put the outbox's tables beside the rows that"
    " have emails (with Flask-SQLAlchemy's binds: metadata=db.metadatas[…] of init_app), and write"
    " other rows in a session of their own; or open the session with twophase=True; or set"
    " OUTBOX_ALLOW_TWO_COMMITS and accept that loss"
)


def refuse_apart(session: Session, connection: Connection) -> None:
    """Raise ConfigurationError if emails on this connection do not commit with the session's rows.

    Nothing was written, and the transaction stays usable.
    """
    if begun(session) < 2 or session.twophase:
        return
    if writers(session) - {connection}:
        raise ConfigurationError(_APART)


def watch(session: Session, connection: Connection) -> None:
    """Refuse rows that the session writes later, too, until its transaction or savepoint ends."""
    session.info.setdefault(_KEY, {})[innermost(session)] = connection


def _refuse(session: Session, _: object = None) -> None:
    for connection in set(session.info.get(_KEY, {}).values()):
        refuse_apart(session, connection)


def _after_rollback(session: Session) -> None:
    # Also fired for a savepoint: its emails are gone, and those outside of it still wait.
    session.info.get(_KEY, {}).pop(innermost(session), None)


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    watched = session.info.get(_KEY, {})
    connection = watched.pop(transaction, None)
    if transaction.parent is None:
        session.info.pop(_KEY, None)
    elif connection is not None:  # the emails of a savepoint are its parent's now
        watched[transaction.parent] = connection


# At the import. Later, a listener of the app's might do it, while SQLAlchemy calls all listeners.
# A commit flushes after `before_commit`, and statements of Core flush nothing.
event.listen(Session, "before_commit", _refuse)
event.listen(Session, "after_flush", _refuse)
event.listen(Session, "after_rollback", _after_rollback)
event.listen(Session, "after_transaction_end", _after_transaction_end)
