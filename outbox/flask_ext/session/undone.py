"""Refuses the commit of a transaction that the database has undone because a statement failed.

If nobody rolls back after the error, the commit seems to work, and order and email are gone. Or the
order is gone, and an email that came later leaves without it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Dialect, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.orm import Session

from ...domain.errors import ConfigurationError
from ...store.session.pending_writes import Mark
from . import outer_transaction
from .reading import connections, mark_of

_UNDONE = (
    "an earlier statement of the session's transaction failed, and with it the database undid what"
    " the transaction had written: roll the session back, and repeat the whole transaction. On"
    " PostgreSQL a savepoint round the statement (with session.begin_nested()) takes its error"
    " back; a deadlock of MariaDB or MySQL undoes savepoints, too"
)


class TransactionUndone(ConfigurationError, PendingRollbackError):
    """The transaction has emails and can only be rolled back.

    It is an error of SQLAlchemy's, too: who catches those and rolls back catches it.
    """


def watch(connection: Connection) -> None:
    """Note that the outbox uses the connection's transaction: then its commit may be refused."""
    if (mark := mark_of(connection)) is not None:
        mark.carries_emails = True


def _before_commit(session: Session) -> None:
    marks = {one: mark for one in connections(session) if (mark := mark_of(one)) is not None}
    if not any(mark.carries_emails for mark in marks.values()):
        return
    for one, mark in marks.items():
        # Another database that was only read, say for a figure, has nothing to lose. But a second
        # phase would fail there, behind the commit of the others.
        counts = mark.carries_emails or mark.had_written or session.twophase
        if counts and mark.is_undone(one):
            raise TransactionUndone(_UNDONE)


def _marks(connection: Connection) -> set[Mark]:
    """Return what is known of its transaction: by sessions in it, and by those that have ended."""
    found = mark_of(connection), outer_transaction.mark_of(connection)
    return {mark for mark in found if mark is not None}


def _refuse(connection: Connection, *_: Any) -> None:
    if any(mark.carries_emails and mark.is_undone(connection) for mark in _marks(connection)):
        outer_transaction.refused(connection)
        raise TransactionUndone(_UNDONE)


def _refuse_and_roll_back(connection: Connection) -> None:
    try:
        _refuse(connection)
    except TransactionUndone:
        # Behind a commit that raised, SQLAlchemy sends no rollback. What came behind the error
        # would be in the next transaction of the connection.
        try:
            connection.dialect.do_rollback(connection.connection)
        except connection.dialect.loaded_dbapi.Error:
            connection.invalidate()
        raise


def _note_error(context: ExceptionContext) -> None:
    connection = context.connection
    marks = set() if connection is None else _marks(connection)
    if connection is None or not marks or context.is_disconnect:
        return  # SQLAlchemy itself refuses to commit over a connection that is lost
    for mark in marks:
        mark.note_error(context.original_exception)
    # A commit flushes, and calls listeners of the app's, after `before_commit`.
    event.listen(connection, "commit", _refuse_and_roll_back)
    event.listen(connection, "prepare_twophase", _refuse)
    event.listen(connection, "commit_twophase", _refuse)


# At the import. Later, a listener of the app's might do it, while SQLAlchemy calls all listeners.
event.listen(Session, "before_commit", _before_commit)
# SQLAlchemy calls no listener behind one that raises, as one that translates errors does. It calls
# those of the class before an engine's, by age, and ignores `insert=True` here.
event.listen(Dialect, "handle_error", _note_error)
