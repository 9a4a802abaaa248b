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

_NO_COUNT = (-1, 2**64 - 1)
"""What mysqldb has for the number of rows of a streamed result; it depends on the version."""

_UNREAD = (
    "the session has an unread result (yield_per, stream_results), and on this database a statement"
    " of the outbox would discard the rest of it: read it first, with all(), or stream it over"
    " another session"
)


def is_unread(connection: Connection) -> bool:
    """Return whether the next statement would discard rows. Only the driver is asked.

    pymysql, aiomysql and asyncmy discard them. cymysql keeps them. mysqldb does not tell: the
    statement fails, and SQLAlchemy drops the connection.
    """
    if not facts_of(connection.dialect.name).streams_rows or connection.closed:
        return False
    driver: Any = connection.connection.driver_connection
    # asyncmy is compiled: its flag is a number, and not a bool.
    return bool(getattr(getattr(driver, "_result", None), "unbuffered_active", False))


def _may_be_unread(connection: Connection) -> bool:
    """Return whether there may be unread rows. With mysqldb this is true after they are read, too.

    There a streamed result has no count of rows. To ask with a command would break its end.
    """
    if is_unread(connection):
        return True
    if not facts_of(connection.dialect.name).streams_rows or connection.closed:
        return False
    driver: Any = connection.connection.driver_connection
    count = getattr(driver, "affected_rows", None)
    return not hasattr(driver, "_result") and callable(count) and count() in _NO_COUNT


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
        ahead = [chunk, *pending] if _may_be_unread(connection) else [chunk]
        refuse_unread(connection)
        yield from ahead
