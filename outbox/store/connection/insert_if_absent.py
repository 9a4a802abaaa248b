"""Inserts a row that two transactions may insert at the same time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import IntegrityError


def insert_if_absent(connection: Connection, table: Table, **values: Any) -> bool:
    """Insert a row with these values; return False if a row with its key already exists.

    If another transaction has inserted the row and is still open, this waits for its end. The
    caller's transaction stays usable, because the INSERT runs under a savepoint.
    """
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(**values))
    except IntegrityError:
        return False
    return True
