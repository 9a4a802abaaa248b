"""Bounds how long a transaction waits for a row on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection


@contextmanager
def bounded(connection: Connection, seconds: int) -> Iterator[None]:
    """Have statements fail that wait longer for a lock, until the end of this transaction."""
    connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{seconds:d}s', true)")
    yield
