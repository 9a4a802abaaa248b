"""Removes rows by their keys on MariaDB and MySQL and locks no other rows.

A DELETE there locks each row that it reads, and waits for rows that a user's transaction has
locked. In a small table, or for many keys, the optimizer reads all rows. So the keys are a derived
table, which is read first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, text

from ..connection.database import Database

_KEYED = """\
DELETE FROM {table} USING JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$')) AS chosen
STRAIGHT_JOIN {table} FORCE INDEX ({index}) ON {table}.{column} = chosen.id
"""


def delete_keyed(
    connection: Connection, database: Database, column: Column[Any], keys: Sequence[int], index: str
) -> None:
    """Remove the rows whose column has one of these keys; `index` begins with that column."""
    table = database.name(column.table)
    names = {"table": table, "column": column.name, "index": index}
    connection.execute(text(_KEYED.format(**names)), {"chosen": json.dumps(list(keys))})
