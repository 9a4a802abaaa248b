"""Removes rows by their keys on MariaDB and MySQL and locks no other rows.

A DELETE there locks each row that it reads, and waits for rows that a user's transaction has
locked. In a small table, or for many keys, the optimizer reads all rows. So the keys are a derived
table, which is read first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, text

from ..connection.database import Database

_KEYED = """\
DELETE FROM {table} USING JSON_TABLE(:chosen, '$[*]' COLUMNS (id BIGINT PATH '$')) AS chosen
STRAIGHT_JOIN {table} FORCE INDEX ({index}) ON {table}.{column} = chosen.id
"""
_PAIRS = """\
DELETE FROM {table} USING
    JSON_TABLE(:chosen, '$[*]' COLUMNS (one BIGINT PATH '$[0]', other BIGINT PATH '$[1]')) AS chosen
STRAIGHT_JOIN {table} FORCE INDEX (PRIMARY)
    ON {table}.{one} = chosen.one AND {table}.{other} = chosen.other
"""


def delete_keyed(
    connection: Connection, database: Database, column: Column[Any], keys: Sequence[int], index: str
) -> None:
    """Remove the rows whose column has one of these keys; `index` begins with that column."""
    table = database.name(column.table)
    names = {"table": table, "column": column.name, "index": index}
    connection.execute(text(_KEYED.format(**names)), {"chosen": json.dumps(list(keys))})


def delete_pairs(
    connection: Connection, database: Database, table: Table, pairs: Sequence[tuple[int, int]]
) -> None:
    """Remove the rows that have one of these pairs as their primary key."""
    one, other = table.primary_key.columns.keys()
    statement = _PAIRS.format(table=database.name(table), one=one, other=other)
    connection.execute(text(statement), {"chosen": json.dumps(pairs)})
