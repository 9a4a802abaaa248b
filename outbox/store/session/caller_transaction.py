"""The caller's transaction: checks that there is one, and sets savepoints in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, NestedTransaction
from sqlalchemy.exc import OperationalError

from ...domain.errors import ConfigurationError
from ..connection.facts import Facts, facts_of

_AUTOCOMMIT = (
    "the session's connection is in autocommit: each statement commits at once, and an email could"
    " be sent although its order is rolled back. Give the outbox a session whose engine has neither"
    ' isolation_level="AUTOCOMMIT" nor a driver that commits each statement'
)


def refuse_autocommit(connection: Connection, facts: Facts) -> None:
    """Raise ConfigurationError if the connection is in autocommit. Only the driver is asked.

    It is asked each time, because a pool's connections may differ, and a session may set an option.
    """
    if _is_autocommit(connection, facts):
        raise ConfigurationError(_AUTOCOMMIT)


def _is_autocommit(connection: Connection, facts: Facts) -> bool:
    if facts.begins_late:
        return not in_transaction(connection) and _never_begins(connection)
    driver = connection.connection.dbapi_connection
    assert driver is not None  # noqa: S101  (a connection in a session is not detached)
    try:
        return connection.dialect.detect_autocommit_setting(driver)
    except NotImplementedError:  # for this driver, only SQLAlchemy's own setting is known
        return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def _never_begins(connection: Connection) -> bool:
    """Whether SQLite's driver never begins a transaction on its own."""
    driver = connection.connection.driver_connection
    return getattr(driver, "isolation_level", "") is None or (
        getattr(driver, "autocommit", None) is True  # from Python 3.12 on
    )


def in_transaction(connection: Connection) -> bool:
    """Return whether SQLite is in a transaction.

    Only the driver itself knows. SQLAlchemy may be wrong, and so may its asynchronous adapters.
    """
    driver: Any = connection.connection.driver_connection
    return bool(getattr(driver, "in_transaction", True))


@contextmanager
def savepoint(connection: Connection) -> Iterator[NestedTransaction]:
    """Undo the block's rows if it fails, so that the caller's transaction stays usable."""
    if facts_of(connection.dialect.name).begins_late and not in_transaction(connection):
        # This driver begins a transaction only at the first write. A savepoint before that would
        # itself be the transaction, and releasing it would commit.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    nested = connection.begin_nested()
    try:
        yield nested
        nested.commit()
    except BaseException:
        # Also if the release failed: SQLAlchemy does not forget such a savepoint on its own. If the
        # transaction has ended, the savepoint is gone with it.
        if not connection.closed and connection.in_nested_transaction():
            _roll_back(connection, nested)
        raise


def _roll_back(connection: Connection, nested: NestedTransaction) -> None:
    try:
        nested.rollback()
    except OperationalError:
        # MySQL and MariaDB end a deadlock by rolling back everything, savepoints included. Then the
        # caller's transaction is over, and a later commit must fail instead of seeming to work.
        connection.invalidate()
