"""Bounds how long a transaction waits for a row, or for a table, on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..connection.error_codes import ANSWERS

_OF_ROWS, _OF_TABLES = "innodb_lock_wait_timeout", "lock_wait_timeout"
_READ = f"SELECT @@SESSION.{_OF_ROWS}, @@SESSION.{_OF_TABLES}"
"""By default the second is a day or a year: `LOCK TABLES` and `ALTER TABLE` have others wait."""


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Have the statements of the block fail that wait longer for a lock.

    The limits are the connection's, so it gets its own ones back. If that fails, nobody uses the
    connection any more. An error of the block is raised as it is, also where that fails.

    It is a second at least. With a limit of 0, MariaDB fails where `SKIP LOCKED` meets a locked
    row, and rolls back the whole transaction.
    """
    rows, tables = connection.exec_driver_sql(_READ).one()
    most = max(1, int(seconds))
    _set(connection, most, most)
    try:
        yield
    except BaseException:
        if not connection.invalidated:  # else it is lost
            with suppress(*ANSWERS):
                _set(connection, rows, tables)
        raise
    _set(connection, rows, tables)


@contextmanager
def bounded_quietly(connection: Connection, *, seconds: float) -> Iterator[None]:
    """Do as `bounded` does for plain reads, unheard by the engine's listeners.

    A plain read waits for no row. An app may count the statements of a page, or write them into its
    log.
    """
    tables = _quietly(connection, f"SELECT @@SESSION.{_OF_TABLES}")
    _quietly(connection, _of_tables(max(1, int(seconds))))
    try:
        yield
    except BaseException:
        if not connection.invalidated:
            with suppress(*ANSWERS):
                _quietly(connection, _of_tables(tables))
        raise
    _quietly(connection, _of_tables(tables))


def _of_tables(seconds: int) -> str:
    return f"SET SESSION {_OF_TABLES} = {int(seconds):d}"


def _quietly(connection: Connection, statement: str) -> Any:
    """Execute it over the driver's connection, which nobody uses any more if that fails."""
    dialect, driver = connection.dialect, connection.connection.dbapi_connection
    assert driver is not None  # noqa: S101  (a connection that is lent is not detached)
    errors = dialect.loaded_dbapi.Error
    try:
        with closing(driver.cursor()) as cursor:
            cursor.execute(statement)
            found = cursor.fetchone() if cursor.description else None
            return found and found[0]
    except errors as error:
        connection.exec_driver_sql("SELECT 1")  # SQLAlchemy finds out here if it is lost
        connection.invalidate()
        raise DBAPIError.instance(None, None, error, errors, dialect=dialect) from error
    except BaseException:
        connection.invalidate()
        raise


def _set(connection: Connection, rows: int, tables: int) -> None:
    try:
        connection.exec_driver_sql(
            f"SET SESSION {_OF_ROWS} = {int(rows):d}, SESSION {_OF_TABLES} = {int(tables):d}"
        )
    except BaseException:
        connection.invalidate()
        raise
