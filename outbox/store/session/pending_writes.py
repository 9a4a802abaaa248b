"""Asks the database whether a transaction holds anything that a commit would write or close.

The texts of its statements are not enough. A function may write, and so may a statement over the
driver's own cursor, which SQLAlchemy does not see. And an error may have undone what they wrote.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from sqlalchemy import Connection

from ..backend import backend_of
from ..connection.error_codes import code_of
from ..connection.facts import facts_of


class Mark:
    """A connection's state when its session's transaction began, and what was seen since."""

    __slots__ = (
        *("_changes", "_codes", "_driver", "_facts", "_is_gone", "_state"),
        *("carries_emails", "had_written", "is_broken", "sessions", "writes", "wrote"),
    )

    def __init__(self, connection: Connection) -> None:
        self.is_broken = False
        """Whether a statement was seen that may be more than a plain read."""
        self.wrote = False
        """Whether a statement was seen that surely writes."""
        self.writes: ref[object] | None = None
        """The context of the newest statement, if it surely writes and has not failed."""
        self.had_written = False
        """Whether a statement before the newest one surely wrote."""
        self.carries_emails = False
        """Whether the outbox has used the transaction."""
        self.sessions = set[int]()
        """The sessions that share the transaction, by their `hash_key`. Mostly it is one."""
        self._codes: set[int | str | None] = set()  # of the errors of its statements
        self._is_gone = False
        self._facts = facts_of(connection.dialect.name)
        # Where the driver shows nothing, None stands for it, and its state never changes.
        shows = self._facts.driver_use
        self._driver: Any = connection.connection.driver_connection if shows else None
        self.after()
        self._changes = self._written()

    def before(self) -> None:
        """Note whether the driver was used directly since SQLAlchemy's last statement."""
        if getattr(self._driver, self._facts.driver_use, None) is not self._state:
            self.is_broken = True

    def after(self) -> None:
        """Note the driver's state after a statement of SQLAlchemy."""
        self._state = getattr(self._driver, self._facts.driver_use, None)

    def is_held(self, connection: Connection) -> bool:
        """Return whether the transaction may hold anything, with one statement at most.

        If that cannot be found out, the answer is True.
        """
        if self.is_broken or connection.closed or connection.invalidated:
            return True
        holds = backend_of(connection.dialect.name).holds
        if holds is not None:
            return holds(connection)
        self.before()
        return self._driver is None or self.is_broken or self.has_written()

    def note_error(self, error: BaseException) -> None:
        """Note that a statement failed, and whether the transaction ended with it.

        SQLite's ends at ON CONFLICT ROLLBACK, or on a full disk. Later statements begin another. So
        if nothing was written before, and the app repeats the statement, nothing is missing.
        """
        self.writes = None
        if self._facts.begins_again and not self.had_written:
            return
        self._codes.add(code_of(error))
        if self._facts.begins_late and self.has_written():
            self._is_gone |= not getattr(self._driver, "in_transaction", True)

    def forget_errors(self) -> None:
        """Note that the transaction has ended: its errors say nothing of the next one."""
        self._codes.clear()
        self._is_gone = False

    def is_undone(self, connection: Connection) -> bool:
        """Return whether a commit would raise nothing and keep nothing, or only the last rows.

        It costs a statement at most, and that only once after an error.
        """
        if connection.closed or connection.invalidated:
            return False  # SQLAlchemy itself refuses such a commit
        if self._is_gone:
            return True
        is_undone = backend_of(connection.dialect.name).is_undone
        if is_undone is not None and is_undone(connection, self._codes):
            return True
        self._codes.clear()  # say, a savepoint took the error back
        return False

    def has_written(self) -> bool:
        """Return whether the driver shows that rows were written since the transaction began."""
        return self._written() != self._changes

    def _written(self) -> int | None:
        return getattr(self._driver, self._facts.driver_writes, None)


def may_call(dialect: str, text: str) -> bool:
    """Return whether a read, given in capitals, may call a function that writes without a trace.

    The function is the user's. Without the privilege PROCESS, MariaDB and MySQL do not tell what a
    transaction has written.
    """
    own = backend_of(dialect).may_call
    return own is not None and own(text)
