"""Many emails come in one transaction: what they are read from may not end it half-way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeVar

from sqlalchemy import Connection

from ..domain.errors import ConfigurationError
from .transaction import savepoint
from .unread import read_first

Chunk = TypeVar("Chunk")

ENDED = (
    "what enqueue_many reads has ended the transaction of its session (commit, rollback or close):"
    " all emails or none are written. Read it into a list first, or read it over another session"
)


@contextmanager
def undivided(connection: Connection, chunks: Iterable[Chunk]) -> Iterator[Iterable[Chunk]]:
    """Give the chunks to be written under one savepoint, and take it back if anything fails.

    The first one is read before the savepoint, which is a statement too; where there is none there
    is no savepoint. Raises ConfigurationError where the transaction ends while they are read.
    """
    pending = read_first(connection, chunks)
    first = list(islice(pending, 1))
    if connection.closed:
        raise ConfigurationError(ENDED)
    if not first:
        yield ()
        return
    with savepoint(connection) as nested:

        def rest() -> Iterator[Chunk]:
            for chunk in pending:
                if not nested.is_active:
                    raise ConfigurationError(ENDED)
                yield chunk

        yield chain(first, rest())
        if not nested.is_active:  # it was ended behind the last chunk
            raise ConfigurationError(ENDED)
