"""Inserts many rows on PostgreSQL by COPY, over the caller's connection and in its transaction.

COPY is several times as fast as an INSERT with as many placeholders, which the driver must write
and the server must parse. It is binary, so that an error of the server quotes no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Select, Table, bindparam, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from ..connection.database import Database

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def is_possible(connection: Connection) -> bool:
    """Return whether the driver can do this: psycopg 3 can. Other drivers get INSERTs.

    Over an asynchronous psycopg the method is there with SQLAlchemy 2.0, but it is asynchronous.
    """
    if connection.dialect.is_async:
        return False
    return callable(getattr(connection.connection.cursor(), "copy", None))


def copy_rows(
    connection: Connection,
    database: Database,
    table: Table,
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
) -> int:
    """Insert the rows, which have a value for each of the columns `names`; return their number.

    The rows are read while the server writes, and the connection can do nothing else meanwhile. So
    they must not come from the user's own iterable. Raises DBAPIError.
    """
    dialect: Any = connection.dialect
    columns = ", ".join(map(dialect.identifier_preparer.quote, names))
    statement = f"COPY {database.name(table)} ({columns}) FROM STDIN (FORMAT BINARY)"
    cursor: Any = connection.connection.cursor()
    errors = dialect.loaded_dbapi.Error
    try:
        with cursor.copy(statement) as copy:
            copy.set_types([type_of(table.c[name]) for name in names])
            for row in rows:
                copy.write_row(row)
        return int(cursor.rowcount)
    except errors as error:
        raise DBAPIError.instance(
            statement, None, error, errors, hide_parameters=True, dialect=dialect
        ) from error


def reserve(
    connection: Connection, database: Database, tables: Sequence[Table], count: int
) -> tuple[datetime, list[list[int]]]:
    """Return the database's time, and `count` ids from the sequence of each of these tables.

    There are no ids for a table that has no sequence.
    """
    statement = database.built(_reserve, tuple(map(database.name, tables)))
    now, *found = connection.execute(statement, {"count": count}).one()
    return now, [[key for key in ids if key is not None] for ids in found]


def _reserve(database: Database, tables: Sequence[str]) -> Select[*tuple[Any, ...]]:
    sequences = (func.pg_get_serial_sequence(table, "id") for table in tables)
    ids = [func.array_agg(func.nextval(sequence)) for sequence in sequences]
    series = func.generate_series(1, bindparam("count")).table_valued("g")
    return select(database.now(), *ids).select_from(series)


def type_of(column: Column[Any]) -> str:
    """Return PostgreSQL's name of a column's type, without a length."""
    compiled: str = column.type.compile(dialect=_DIALECT)
    return compiled.partition("(")[0].partition(" COLLATE")[0].lower()
