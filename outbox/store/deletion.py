"""Rows removed by their keys, and no others locked.

A DELETE on MariaDB and MySQL locks each row that it passes over, and waits for those that a
person's transaction holds; in a small table, or for many keys, the optimizer passes over all of
them. So there the keys stand in a table of their own, which is read first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, delete, text

from .connection.database import Database
from .connection.list_parts import is_among

_KEYED = """\
DELETE FROM {table} USING JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$')) AS chosen
STRAIGHT_JOIN {table} FORCE INDEX ({index}) ON {table}.{column} = chosen.id
"""


def delete_keyed(
    connection: Connection,
    database: Database,
    column: Column[Any],
    keys: Sequence[int],
    *,
    index: str = "PRIMARY",
) -> None:
    """Remove the rows whose column has one of these keys; the index begins with that column."""
    if database.dialect not in ("mysql", "mariadb"):
        connection.execute(delete(column.table).where(is_among(database, column, keys)))
        return
    table = database.name(column.table)
    names = {"table": table, "column": column.name, "index": index}
    connection.execute(text(_KEYED.format(**names)), {"chosen": json.dumps(list(keys))})
