"""SQLite in memory: everybody shares one connection, and a transaction on it is whose it is.

It is one for all of a thread, or of the process. What we would begin there is the caller's own
transaction, and our commit would be theirs. So ours wait for each other, and keep off theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from ...domain.errors import ConfigurationError
from .drivers import in_memory

_BUSY = (
    "SQLite's database in memory has one connection, and a transaction is open on it: commit it or"
    " roll it back first, or use a database in a file"
)


class Busy(ConfigurationError, SQLAlchemyError):
    """Somebody is in a transaction on the only connection.

    For whoever calls it is a mistake. For a worker's thread it is an outage that ends by itself.
    """


class Shared:
    """The only connection of a database in memory, lent to one transaction of ours at a time."""

    def __init__(self, engine: Engine, patience: float) -> None:
        self._engine = engine
        self._patience = patience
        self._turn = threading.RLock()

    @contextmanager
    def lent(self, isolation: str) -> Iterator[Connection]:
        """Lend it. Raises Busy where a transaction is open on it."""
        if not self._turn.acquire(timeout=self._patience):
            raise Busy(_BUSY)
        try:
            refuse_busy(self._engine)
            with self._engine.connect() as connection:
                try:
                    yield connection.execution_options(isolation_level=isolation)
                finally:
                    _end_autocommit(connection)
        finally:
            self._turn.release()


def _end_autocommit(connection: Connection) -> None:
    """Have the driver begin transactions again, as everybody's connection does by itself.

    A session that has only read may hold it, too. Then the pool gives nothing back yet, and what
    that session writes next would commit by itself.
    """
    if not connection.closed and not connection.invalidated:
        driver: Any = connection.connection.dbapi_connection
        connection.dialect.reset_isolation_level(driver)


def refuse_busy(engine: Engine) -> None:
    """Raise Busy where a transaction of ours would be in that of somebody else.

    The driver is asked, and nothing is lent that has to be returned: a return rolls back.
    """
    if in_memory(engine) and _is_busy(engine):
        raise Busy(_BUSY)


def _is_busy(engine: Engine) -> bool:
    if isinstance(engine.pool, StaticPool):
        driver = engine.pool.connection.dbapi_connection
        return bool(getattr(driver, "in_transaction", False))
    try:
        lent = engine.pool.connect()
    except AssertionError:  # an AssertionPool's: it has lent its only connection
        return True
    try:
        return bool(getattr(lent.dbapi_connection, "in_transaction", False))
    finally:
        lent.close()
