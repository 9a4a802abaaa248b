"""Runs what a person waits for: nobody may keep such a transaction waiting for long.

A user's transaction, or that of a host that vanished, may hold a row for hours. A web request must
not hang as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ..domain.errors import RowsLocked
from .backend import backend_of
from .connection.database import Database
from .connection.error_codes import is_lock_timeout

Result = TypeVar("Result")

SECONDS = 2
"""The longest wait for a row. SQLite's writers wait for each other as always."""


def run_bounded(database: Database, work: Callable[[Connection], Result]) -> Result:
    """Run `work` as `Database.run` does. Raises RowsLocked if a row stays locked."""
    bounded = backend_of(database.dialect).bounded

    def attempt(connection: Connection) -> Result:
        if bounded is None:
            return work(connection)
        try:
            with bounded(connection, SECONDS):
                return work(connection)
        except DBAPIError as error:
            if is_lock_timeout(error):
                raise RowsLocked from error
            raise

    return database.run(attempt)
