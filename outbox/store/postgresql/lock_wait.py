"""Bounds how long a transaction waits for a row, or for a table, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..connection.psycopg.prepared_statements import unprepared


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Have statements fail that wait longer for a lock, until the end of this transaction."""
    connection.exec_driver_sql(_statement(seconds))
    yield


@contextmanager
def bounded_quietly(connection: Connection, *, seconds: float) -> Iterator[None]:
    """Do as `bounded` does, unheard by the engine's listeners: a plain read is no more than it was.

    An app may count the statements of a page, or write them into its log.
    """
    dialect, driver = connection.dialect, connection.connection.dbapi_connection
    assert driver is not None  # noqa: S101  (a connection that is lent is not detached)
    errors = dialect.loaded_dbapi.Error
    try:
        with unprepared(connection), closing(driver.cursor()) as cursor:
            cursor.execute(_statement(seconds))
    except errors as error:
        connection.exec_driver_sql("SELECT 1")  # SQLAlchemy finds out here if it is lost
        raise DBAPIError.instance(None, None, error, errors, dialect=dialect) from error
    yield


def _statement(seconds: float) -> str:
    milliseconds = max(1, round(seconds * 1000))  # 0 would be no bound
    return f"SELECT set_config('lock_timeout', '{milliseconds:d}ms', true)"
