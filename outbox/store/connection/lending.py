"""Lends a connection of the engine's pool with an isolation level, and gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError

from .galera.causal import wait_for_others, wait_no_more
from .psycopg.prepared_statements import unprepared

_OPEN, _FAILED = 2, 3
"""libpq's states of a transaction, as psycopg and psycopg2 tell them."""


@contextmanager
def isolated(engine: Engine, isolation: str) -> Iterator[Connection]:
    """Lend a connection for the block. Raises DBAPIError."""
    connection = engine.connect()
    try:
        _set_isolation(connection, isolation)
        yield connection
    finally:
        _give_back(connection)


def _set_isolation(connection: Connection, isolation: str) -> None:
    """Set a connection's isolation level. Raises DBAPIError.

    On MariaDB and MySQL it is a statement, and SQLAlchemy lets the driver's own error out of it. So
    a connection that was lost while it waited in the pool would not be known as an outage.

    A transaction that is open already ends first: SQLite's driver would commit it here, and
    PostgreSQL's drivers would refuse.
    """
    dialect, driver = connection.dialect, _driver(connection)
    errors = dialect.loaded_dbapi.Error
    try:
        _end_open(connection, driver)
        wait_for_others(connection, driver)
        # Not by an option of the connection: SQLAlchemy would put the level back, see `_give_back`.
        dialect.set_isolation_level(driver, isolation)  # type: ignore[arg-type]
    except errors as error:
        # If the connection is lost, SQLAlchemy finds that out here, and empties the pool.
        connection.exec_driver_sql("SELECT 1")
        raise DBAPIError.instance(None, None, error, errors, dialect=dialect) from error


def _end_open(connection: Connection, driver: Any) -> None:
    """End the transaction that is open on a connection of the pool, and commit no rows of it.

    It may be the app's. After a commit that fails, a session takes its transaction for ended, and
    so does the pool. But it is still open if the file was locked, on SQLite, or if a listener of
    the app raised before the driver's own commit. Then it is rolled back.

    On PostgreSQL it may also be one in which a listener of the pool ran a `SET`. A rollback would
    undo that. So what has written nothing is committed.
    """
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    if getattr(driver, "in_transaction", False) or status == _FAILED:
        driver.rollback()
    elif status == _OPEN:
        with unprepared(connection), closing(driver.cursor()) as cursor:
            cursor.execute("SELECT txid_current_if_assigned()")
            [has_written] = cursor.fetchone()
        (driver.commit if has_written is None else driver.rollback)()


def _give_back(connection: Connection) -> None:
    """Put a connection's isolation level back, and give the connection back to its pool.

    What it was lent for is committed by then, or has failed with an error of its own. So if the
    connection is lost on this way, it is only replaced. From SQLAlchemy's own way back the driver's
    error would come out, as if the work had failed, and the pool would lack a connection for good.
    """
    try:
        if not connection.invalidated:
            wait_no_more(connection, _driver(connection))
            connection.dialect.reset_isolation_level(_driver(connection))
        connection.close()
    except BaseException as error:
        if not connection.closed:
            connection.invalidate(error)
            connection.close()
        if not isinstance(error, (connection.dialect.loaded_dbapi.Error, DBAPIError)):
            raise


def _driver(connection: Connection) -> DBAPIConnection:
    driver = connection.connection.dbapi_connection
    assert driver is not None  # noqa: S101  (a connection that is lent is not detached)
    return driver
