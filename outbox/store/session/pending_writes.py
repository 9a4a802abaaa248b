"""Asks the database whether a transaction holds anything that a commit would write or close.

The texts of its statements are not enough. A function may write, and so may a statement over the
driver's own cursor, which SQLAlchemy does not see.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from ..backend import backend_of


class Mark:
    """A connection's state when its session's transaction began, and what was seen since."""

    __slots__ = ("_changes", "_driver", "_holds", "_state", "_tells", "is_broken")

    def __init__(self, connection: Connection) -> None:
        self.is_broken = False
        """Whether a statement was seen that may be more than a plain read."""
        own = backend_of(connection.dialect.name)
        self._holds, self._tells = own.holds, own.driver_state
        self._driver: Any = self._tells and connection.connection.driver_connection
        self._state = self._seen()
        self._changes = self._written()

    def before(self) -> None:
        """Note whether the driver was used directly since SQLAlchemy's last statement."""
        if self._seen() is not self._state:
            self.is_broken = True

    def after(self) -> None:
        """Note the driver's state after a statement of SQLAlchemy."""
        self._state = self._seen()

    def is_held(self, connection: Connection) -> bool:
        """Return whether the transaction may hold anything, with one statement at most.

        If that cannot be found out, the answer is True.
        """
        if self.is_broken or connection.closed or connection.invalidated:
            return True
        if self._holds is not None:
            return self._holds(connection)
        if self._tells is None:
            return True
        return self._written() != self._changes or self._seen() is not self._state

    def has_written(self) -> bool:
        """Return whether the driver shows that rows were written since the transaction began."""
        return self._written() != self._changes

    def _seen(self) -> object:
        return None if self._tells is None else self._tells.seen(self._driver)

    def _written(self) -> int | None:
        return None if self._tells is None else self._tells.written(self._driver)


def tells(dialect: str) -> bool:
    """Return whether the driver shows that it was used directly."""
    return backend_of(dialect).driver_state is not None


def may_call(dialect: str, text: str) -> bool:
    """Return whether a read, given in capitals, may call a function that writes without a trace.

    The function is the user's. Without the privilege PROCESS, MariaDB and MySQL do not tell what a
    transaction has written.
    """
    own = backend_of(dialect).may_call
    return own is not None and own(text)
