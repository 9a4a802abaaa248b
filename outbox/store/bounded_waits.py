"""Bounds how long statements wait for a row that another transaction holds, or for a replica.

A user's transaction, or that of a host that vanished, may hold it for hours. A web request must not
hang as long, and neither must a purge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..domain.errors import RowsLocked
from .backend import backend_of
from .connection.database import Database, reads_bounded
from .connection.error_codes import is_lock_timeout

Result = TypeVar("Result")

SECONDS = 2
"""The longest wait for a row. SQLite's writers wait for each other as always."""


def bounded(
    connection: Connection, database: Database, seconds: float
) -> AbstractContextManager[None]:
    """Have the statements of the block fail that wait longer for a row, with the driver's error.

    On SQLite there is no such wait: the transaction has the write lock.
    """
    own = backend_of(database.dialect).bounded
    return nullcontext() if own is None else own(connection, seconds)


@contextmanager
def bounded_reads(database: Database, seconds: float = SECONDS) -> Iterator[None]:
    """Have the plain reads of the block fail that wait longer for a lock, with the driver's error.

    A person's `LOCK TABLE` or a migration holds up each read of that table, for as long as its
    transaction is open. Who asks how things stand is to be told instead.
    """
    own = backend_of(database.dialect).bounded_quietly
    before = reads_bounded.set(None if own is None else (database, partial(own, seconds=seconds)))
    try:
        yield
    finally:
        reads_bounded.reset(before)


def run_locally(database: Database, work: Callable[[Connection], Result]) -> Result:
    """Run `work`, which only tells, as `run_each` does. It waits for no synchronous replica."""
    own = backend_of(database.dialect).commit_locally
    if own is None:
        return database.run_each(work)

    def attempt(connection: Connection) -> Result:
        own(connection)
        return work(connection)

    return database.run(attempt)


def run_bounded(database: Database, work: Callable[[Connection], Result]) -> Result:
    """Run `work` as `Database.run` does. Raises RowsLocked if a row stays locked."""

    def attempt(connection: Connection) -> Result:
        with bounded_waits(connection, database):
            return work(connection)

    return database.run(attempt)


@contextmanager
def bounded_waits(
    connection: Connection, database: Database, seconds: float = SECONDS
) -> Iterator[None]:
    """Have the block raise RowsLocked if one of its statements waits longer for a row."""
    try:
        with bounded(connection, database, seconds):
            yield
    except DBAPIError as error:
        if is_lock_timeout(error):
            raise RowsLocked from error
        raise
