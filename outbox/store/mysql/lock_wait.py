"""Bounds how long a transaction waits for a row on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection

from ..connection.error_codes import ANSWERS

_NAME = "innodb_lock_wait_timeout"


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Have the statements of the block fail that wait longer for a lock.

    The limit is the connection's, so it gets its own one back. If that fails, nobody uses the
    connection any more. An error of the block is raised as it is, also where that fails.

    It is a second at least. With a limit of 0, MariaDB fails where `SKIP LOCKED` meets a locked
    row, and rolls back the whole transaction.
    """
    before = connection.exec_driver_sql(f"SELECT @@SESSION.{_NAME}").scalar_one()
    _set(connection, max(1, int(seconds)))
    try:
        yield
    except BaseException:
        if not connection.invalidated:  # else it is lost
            with suppress(*ANSWERS):
                _set(connection, before)
        raise
    _set(connection, before)


def _set(connection: Connection, seconds: int) -> None:
    try:
        connection.exec_driver_sql(f"SET SESSION {_NAME} = {int(seconds):d}")
    except BaseException:
        connection.invalidate()
        raise
