"""Bounds how long a transaction waits for a row, or for a table, on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection

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


def _set(connection: Connection, rows: int, tables: int) -> None:
    try:
        connection.exec_driver_sql(
            f"SET SESSION {_OF_ROWS} = {int(rows):d}, SESSION {_OF_TABLES} = {int(tables):d}"
        )
    except BaseException:
        connection.invalidate()
        raise
