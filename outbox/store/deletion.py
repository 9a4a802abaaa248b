"""Removes rows by their keys and locks no other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, delete

from .backend import backend_of
from .connection.database import Database
from .connection.list_parts import is_among


def delete_keyed(
    connection: Connection,
    database: Database,
    column: Column[Any],
    keys: Sequence[int],
    *,
    index: str = "PRIMARY",
) -> None:
    """Remove the rows whose column has one of these keys; `index` begins with that column."""
    if (own := backend_of(database.dialect).delete_keyed) is not None:
        own(connection, database, column, keys, index)
    else:
        connection.execute(delete(column.table).where(is_among(database, column, keys)))
