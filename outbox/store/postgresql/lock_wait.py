"""Bounds how long a transaction waits for a row on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection


@contextmanager
def bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Have statements fail that wait longer for a lock, until the end of this transaction."""
    milliseconds = max(1, round(seconds * 1000))  # 0 would be no bound
    connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{milliseconds:d}ms', true)")
    yield
