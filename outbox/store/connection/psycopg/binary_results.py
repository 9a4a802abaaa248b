"""Has PostgreSQL send rows as they are stored: as text, octets come in hexadecimal.

A content is twice as long then, and to turn it back takes a fourteenth of a worker's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from sqlalchemy import Connection


def binary_results(connection: Connection) -> AbstractContextManager[None]:
    """Have the rows of the block's statements come in binary, where psycopg is the driver.

    The rows are the same. An app that has chosen another kind of cursor keeps it.
    """
    if connection.dialect.driver != "psycopg":
        return nullcontext()
    driver: Any = connection.connection.driver_connection
    usual, binary = _cursors()
    is_usual = getattr(driver, "cursor_factory", None) is usual  # a tracer's wrapper may have none
    return _with(driver, binary) if is_usual else nullcontext()


@contextmanager
def _with(driver: Any, factory: type) -> Iterator[None]:
    usual, driver.cursor_factory = driver.cursor_factory, factory
    try:
        yield
    finally:
        driver.cursor_factory = usual


@cache
def _cursors() -> tuple[type, type]:
    """Return psycopg's usual cursor, and one that asks for binary rows."""
    from psycopg import Connection as Driver
    from psycopg import Cursor
    from psycopg.pq import Format

    class BinaryCursor(Cursor[Any]):
        def __init__(self, connection: Driver[Any], **options: Any) -> None:
            super().__init__(connection, **options)
            self.format = Format.BINARY

    return Cursor, BinaryCursor
