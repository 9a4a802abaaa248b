"""SQLite in memory: the app and the outbox share one connection, but must not share transactions.

There is one connection for a thread, or for the process. If the outbox began a transaction during
the caller's, its commit would commit the caller's writes. So the outbox's transactions wait for
each other, and are refused during the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from ....domain.errors import ConfigurationError

_BUSY = (
    "an SQLite database in memory has only one connection, and a transaction is open on it: commit"
    " it or roll it back first, or use a database in a file"
)


class Busy(ConfigurationError, SQLAlchemyError):
    """A transaction is open on the only connection.

    To a caller it is a mistake. To a worker's thread it is an outage that will pass.
    """


class Shared:
    """Lends the only connection of a database in memory to one outbox transaction at a time."""

    def __init__(self, engine: Engine, patience: float) -> None:
        self._engine = engine
        self._patience = patience
        self._turn = threading.RLock()

    @contextmanager
    def lent(self, isolation: str) -> Iterator[Connection]:
        """Lend the connection. Raises Busy if a transaction is open on it."""
        if not self._turn.acquire(timeout=self._patience):
            raise Busy(_BUSY)
        try:
            self.refuse_busy()
            with self._engine.connect() as connection:
                try:
                    yield connection.execution_options(isolation_level=isolation)
                finally:
                    _end_autocommit(connection)
        finally:
            self._turn.release()

    def refuse_busy(self) -> None:
        """Raise Busy if an outbox transaction would run inside somebody else's."""
        if _is_busy(self._engine):
            raise Busy(_BUSY)


def _end_autocommit(connection: Connection) -> None:
    """Make the driver begin transactions again, as the app's code expects.

    A pool resets a connection when it is returned. But a session that has only read may still hold
    this one, and the session's next write would commit at once.
    """
    if not connection.closed and not connection.invalidated:
        driver: Any = connection.connection.dbapi_connection
        connection.dialect.reset_isolation_level(driver)


def _is_busy(engine: Engine) -> bool:
    """Ask the driver, without returning a connection to the pool, because that rolls back."""
    if isinstance(engine.pool, StaticPool):
        driver = engine.pool.connection.dbapi_connection
        return bool(getattr(driver, "in_transaction", False))
    try:
        lent = engine.pool.connect()
    except AssertionError:  # an AssertionPool has already lent its only connection
        return True
    try:
        return bool(getattr(lent.dbapi_connection, "in_transaction", False))
    finally:
        lent.close()
