"""Inserts a row that two transactions may insert at the same time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import DBAPIError, IntegrityError


def insert_if_absent(connection: Connection, table: Table, **values: Any) -> bool:
    """Insert a row with these values; return False if a row with its key already exists.

    If another transaction has inserted the row and is still open, this waits for its end. The
    caller's transaction stays usable, because the INSERT runs under a savepoint. A deadlock, or a
    full disk of SQLite, takes the savepoint away: the error that says so must not hide that one.
    """
    met: list[DBAPIError] = []
    try:
        with connection.begin_nested():
            try:
                connection.execute(insert(table).values(**values))
            except DBAPIError as error:
                met.append(error)
                raise
    except DBAPIError as error:
        if met and met[0] is not error:
            raise met[0] from error
        if isinstance(error, IntegrityError):
            return False
        raise
    return True
