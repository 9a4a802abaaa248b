"""The caller's transaction: that there is one, and what of ours can be taken back within it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, NestedTransaction
from sqlalchemy.exc import OperationalError

from ...domain.errors import ConfigurationError
from ..connection.facts import facts_of

_AUTOCOMMIT = (
    "the session's connection is in autocommit: each statement commits by itself, and an email"
    " could leave without its order. Give the outbox a session whose engine has neither"
    ' isolation_level="AUTOCOMMIT" nor a driver that commits by itself'
)


def refuse_autocommit(connection: Connection) -> None:
    """Raise ConfigurationError where a commit would have nothing left to do. Asks the driver only.

    It has to be asked each time: a pool's connections differ, and an option may be a session's own.
    """
    if _is_autocommit(connection):
        raise ConfigurationError(_AUTOCOMMIT)


def _is_autocommit(connection: Connection) -> bool:
    if facts_of(connection.dialect.name).begins_late:
        return not in_transaction(connection) and _never_begins(connection)
    driver = connection.connection.dbapi_connection
    assert driver is not None  # noqa: S101  (a connection in a session is not detached)
    try:
        return connection.dialect.detect_autocommit_setting(driver)
    except NotImplementedError:  # of such a driver SQLAlchemy's own setting is all there is
        return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def _never_begins(connection: Connection) -> bool:
    """Whether SQLite's driver leaves the beginning to others, who have not begun."""
    driver = connection.connection.driver_connection
    return getattr(driver, "isolation_level", "") is None or (
        getattr(driver, "autocommit", None) is True  # from Python 3.12 on
    )


def in_transaction(connection: Connection) -> bool:
    """Return whether SQLite is in a transaction.

    The driver itself knows: SQLAlchemy may err, and so may its adapter of an asynchronous one.
    """
    driver: Any = connection.connection.driver_connection
    return bool(getattr(driver, "in_transaction", True))


@contextmanager
def savepoint(connection: Connection) -> Iterator[NestedTransaction]:
    """Keep the caller's transaction usable, and free of our rows, whatever fails in the block."""
    if facts_of(connection.dialect.name).begins_late and not in_transaction(connection):
        # Its driver opens a transaction at the first write only: a savepoint before that would
        # itself be the transaction, and its release would commit.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    nested = connection.begin_nested()
    try:
        yield nested
        nested.commit()
    except BaseException:
        # Also where the release failed: SQLAlchemy forgets no such savepoint by itself. With its
        # transaction it is gone.
        if not connection.closed and connection.in_nested_transaction():
            _roll_back(connection, nested)
        raise


def _roll_back(connection: Connection, nested: NestedTransaction) -> None:
    try:
        nested.rollback()
    except OperationalError:
        # MySQL and MariaDB end a deadlock by rolling back everything, savepoints included. The
        # caller's transaction is over then, and must not seem to commit what it no longer holds.
        connection.invalidate()
