"""Adds to the sums of attempts on MariaDB and MySQL: one statement for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.mysql import insert

from ..connection.database import Database


def add(connection: Connection, database: Database, rows: Sequence[dict[str, Any]]) -> None:
    """Add to the sums with these keys, or write new sums."""
    if not rows:
        return
    stat = database.tables.stat
    new = insert(stat)
    more = {"attempts": stat.c.attempts + new.inserted.attempts}
    connection.execute(new.on_duplicate_key_update(more), rows)
