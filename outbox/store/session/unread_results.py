"""Protects a streamed result of the caller that is not read to its end, on MariaDB and MySQL.

There the rows are on the wire until they are read. Before the next statement over the connection
the driver discards the rest, such as the readers of a newsletter. The other databases keep a
separate cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection

from ...domain.errors import ConfigurationError
from ..connection.facts import facts_of

Chunk = TypeVar("Chunk")

_UNREAD = (
    "the session has an unread result (yield_per, stream_results), and on this database a statement"
    " of the outbox would discard the rest of it: read it first, with all(), or stream it over"
    " another session"
)


def is_unread(connection: Connection) -> bool:
    """Return whether the next statement would discard rows. Only the driver is asked.

    pymysql, aiomysql and asyncmy discard them. cymysql keeps them, and mysqldb refuses the
    statement.
    """
    if not facts_of(connection.dialect.name).streams_rows or connection.closed:
        return False
    driver: Any = connection.connection.driver_connection
    # asyncmy is compiled: its flag is a number, and not a bool.
    return bool(getattr(getattr(driver, "_result", None), "unbuffered_active", False))


def refuse_unread(connection: Connection) -> None:
    """Raise ConfigurationError if a statement would discard unread rows."""
    if is_unread(connection):
        raise ConfigurationError(_UNREAD)


def read_first(connection: Connection, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks so that statements between them do not discard rows they are read from.

    If they come from an unread result of this connection, all are read before the first is yielded.
    Then memory grows with their number. Raises ConfigurationError as `refuse_unread` does.
    """
    pending = iter(chunks)
    for chunk in pending:
        ahead = [chunk, *pending] if is_unread(connection) else [chunk]
        refuse_unread(connection)
        yield from ahead
