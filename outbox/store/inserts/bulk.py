"""Inserts many rows in few statements, with every driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Insert

from ..connection.facts import facts_of


def insert_rows(connection: Connection, statement: Insert, rows: Sequence[dict[str, Any]]) -> None:
    """Run the INSERT for all rows.

    psycopg's own `executemany` sends one INSERT per row. With RETURNING, SQLAlchemy puts the rows
    into statements of a thousand instead. The other drivers are fast without this.
    """
    if not rows:
        return
    if facts_of(connection.dialect.name).slow_executemany:
        statement = statement.returning(*statement.table.primary_key)
        connection.execute(statement, rows).all()
    else:
        connection.execute(statement, rows)
