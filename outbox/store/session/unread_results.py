"""A result of the caller's that was not read to its end, as MariaDB and MySQL stream one.

There the rows are on the wire until they are read, and the driver discards the rest before the next
statement over the connection: readers of a newsletter, or whatever else the caller goes through.
The other databases keep a cursor beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection

from ...domain.errors import ConfigurationError
from ..connection.facts import facts_of

Chunk = TypeVar("Chunk")

_UNREAD = (
    "the session has an unread result (yield_per, stream_results), and a statement of the outbox"
    " would discard the rest of it on this database: read it first, with all(), or stream it over"
    " another session"
)


def is_unread(connection: Connection) -> bool:
    """Return whether the next statement would discard rows. Asks the driver only.

    pymysql, aiomysql and asyncmy would. cymysql keeps such rows, and mysqldb refuses the statement
    by itself.
    """
    if not facts_of(connection.dialect.name).streams_rows or connection.closed:
        return False
    driver: Any = connection.connection.driver_connection
    # asyncmy is compiled: there it is a number, and not True.
    return bool(getattr(getattr(driver, "_result", None), "unbuffered_active", False))


def refuse_unread(connection: Connection) -> None:
    """Raise ConfigurationError where a statement would discard rows that nobody has read."""
    if is_unread(connection):
        raise ConfigurationError(_UNREAD)


def read_first(connection: Connection, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks, each when a statement would discard nothing that they are read from.

    Where they come out of an unread result of this connection, all are read before the first is
    yielded, and memory grows with their number. Raises ConfigurationError as `refuse_unread`.
    """
    pending = iter(chunks)
    for chunk in pending:
        ahead = [chunk, *pending] if is_unread(connection) else [chunk]
        refuse_unread(connection)
        yield from ahead
