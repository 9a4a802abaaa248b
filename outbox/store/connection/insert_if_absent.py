"""A row that two transactions may make at once: one makes it, and the other is told so."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import IntegrityError


def insert_if_absent(connection: Connection, table: Table, **values: Any) -> bool:
    """Insert a row of these values; False where one with its key is there already.

    Where another transaction has inserted it and is still open, this waits for its end. The
    transaction stays usable: the attempt is under a savepoint.
    """
    try:
        with connection.begin_nested():
            connection.execute(insert(table).values(**values))
    except IntegrityError:
        return False
    return True
