"""A mail and its content on PostgreSQL: one statement, and one round trip."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from . import prepared
from .copying import type_of
from .database import Database
from .mail_row import COLUMNS, Values

_STORED = """
    INSERT INTO {content} (size, crc32, sha256, body, created_at) VALUES (
        %(content_size)s, %(content_crc32)s, %(content_sha256)s, %(content_body)s,
        clock_timestamp() + make_interval(secs => %(offset)s)
    ) RETURNING id, created_at
"""
_FOUND = """
    SELECT %(content_id)s::bigint AS id,
        clock_timestamp() + make_interval(secs => %(offset)s) AS created_at
"""
_STATEMENT = """
WITH content AS MATERIALIZED ({source})
INSERT INTO {email} (content_id, created_at, due_at, {names})
SELECT id, created_at, coalesce(%(send_at)s::timestamptz, created_at), {values} FROM content
RETURNING id, pg_backend_pid() AS backend
"""


def is_possible(connection: Connection) -> bool:
    """Whether the driver takes the statement as it is written here: psycopg and psycopg2 do."""
    dialect = connection.dialect
    return dialect.name == "postgresql" and dialect.paramstyle == "pyformat"


def insert(
    connection: Connection, database: Database, row: Values, content: int | dict[str, Any]
) -> int:
    """Insert one mail over a stored content's id, or with the columns of a new one; return its id.

    In the driver's own form: to build and compile it anew would take longer than to run it.
    """
    values = dict(zip(COLUMNS, row, strict=True), offset=database.offset)
    if isinstance(content, int):
        values["content_id"] = content
    else:
        values.update((f"content_{name}", value) for name, value in content.items())
    statement = database.built(_statement, isinstance(content, int))
    row = connection.exec_driver_sql(statement, values).one()
    if not prepared.is_known(connection):
        prepared.learn(connection, row.backend)
    return int(row.id)


def _statement(database: Database, found: bool) -> str:
    email, content = database.tables.email, database.tables.content
    source = _FOUND if found else _STORED.format(content=content.fullname)
    return _STATEMENT.format(
        source=source,
        email=email.fullname,
        names=", ".join(COLUMNS),
        values=", ".join(f"%({name})s::{type_of(email.c[name])}" for name in COLUMNS),
    )
