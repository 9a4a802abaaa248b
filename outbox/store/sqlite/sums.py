"""Adds to the sums of attempts on SQLite: one prepared statement for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert

from ..connection.database import Database


def add(connection: Connection, database: Database, rows: Sequence[dict[str, Any]]) -> None:
    """Add to the sums with these keys, which differ, or write new sums."""
    if not rows:
        return
    stat = database.tables.stat
    new = insert(stat)
    more = {"attempts": stat.c.attempts + new.excluded.attempts}
    statement = new.on_conflict_do_update(index_elements=list(stat.primary_key), set_=more)
    connection.execute(statement, rows)
