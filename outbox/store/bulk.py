"""Many rows in few statements, on every driver."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Insert, any_, literal
from sqlalchemy.dialects.postgresql import ARRAY


def insert_rows(connection: Connection, statement: Insert, rows: Sequence[dict[str, Any]]) -> None:
    """Run the INSERT for all rows.

    psycopg's own `executemany` sends one INSERT a row. Asking for the keys makes SQLAlchemy put
    the rows into statements of a thousand; the other drivers are fast by themselves.
    """
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        statement = statement.returning(*statement.table.primary_key)
        connection.execute(statement, rows).all()
    else:
        connection.execute(statement, rows)


def among(
    connection: Connection, column: ColumnElement[int], ids: Collection[int]
) -> ColumnElement[bool]:
    """The column is one of these ids.

    On PostgreSQL they travel as one array, so that the statement's text does not depend on their
    number and is parsed and planned once.
    """
    if connection.dialect.name == "postgresql":
        return column == any_(literal(sorted(ids), ARRAY(BigInteger)))
    return column.in_(sorted(ids))
