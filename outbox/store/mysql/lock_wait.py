"""Bounds how long a transaction waits for a row on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

_NAME = "innodb_lock_wait_timeout"


@contextmanager
def bounded(connection: Connection, seconds: int) -> Iterator[None]:
    """Have the statements of the block fail that wait longer for a lock.

    The limit is the connection's, so it gets its own one back. If that fails, nobody uses the
    connection any more.
    """
    before = connection.exec_driver_sql(f"SELECT @@SESSION.{_NAME}").scalar_one()
    connection.exec_driver_sql(f"SET SESSION {_NAME} = {seconds:d}")
    try:
        yield
    finally:
        try:
            connection.exec_driver_sql(f"SET SESSION {_NAME} = {int(before):d}")
        except BaseException:
            connection.invalidate()
            raise
