"""A mail and its content on PostgreSQL: one statement, and one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from ...domain.delivery.outcome import RecipientStatus
from ..column_values import COLUMNS, Values
from ..connection import prepared_statements
from ..connection.database import Database
from .copy import type_of

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
_ONE = """
WITH content AS MATERIALIZED ({source})
{insert}
RETURNING id, pg_backend_pid() AS backend
"""
_SEVERAL = """
WITH content AS MATERIALIZED ({source}),
email AS ({insert} RETURNING id),
recipients AS (
    INSERT INTO {recipient} (email_id, position, address, status)
    SELECT email.id, listed.place - 1, listed.address, %(recipient_status)s
    FROM email, unnest(%(addresses)s::text[]) WITH ORDINALITY AS listed (address, place)
)
SELECT id, pg_backend_pid() AS backend FROM email
"""
_INSERT = """
INSERT INTO {email} (content_id, created_at, due_at, {names})
SELECT id, created_at, coalesce(%(send_at)s::timestamptz, created_at), {values} FROM content
"""


def is_possible(connection: Connection) -> bool:
    """Whether the driver takes the statement as it is written here: psycopg and psycopg2 do."""
    dialect = connection.dialect
    return dialect.name == "postgresql" and dialect.paramstyle == "pyformat"


def insert(
    connection: Connection,
    database: Database,
    row: Values,
    content: int | dict[str, Any],
    recipients: Sequence[str],
) -> int:
    """Insert one mail over a stored content's id, or with the columns of a new one; return its id.

    `recipients` get a row each. In the driver's own form: to build and compile it anew would take
    longer than to run it.
    """
    values = dict(zip(COLUMNS, row, strict=True), offset=database.offset)
    if isinstance(content, int):
        values["content_id"] = content
    else:
        values.update((f"content_{name}", value) for name, value in content.items())
    if recipients:
        values |= {
            "addresses": list(recipients),
            "recipient_status": RecipientStatus.PENDING.value,
        }
    statement = database.built(_statement, isinstance(content, int), bool(recipients))
    found = connection.exec_driver_sql(statement, values).one()
    if not prepared_statements.is_known(connection):
        prepared_statements.learn(connection, found.backend)
    return int(found.id)


def _statement(database: Database, stored: bool, several: bool) -> str:
    tables = database.tables
    inserted = _INSERT.format(
        email=database.name(tables.email),
        names=", ".join(COLUMNS),
        values=", ".join(f"%({name})s::{type_of(tables.email.c[name])}" for name in COLUMNS),
    )
    return (_SEVERAL if several else _ONE).format(
        source=_FOUND if stored else _STORED.format(content=database.name(tables.content)),
        insert=inserted,
        recipient=database.name(tables.recipient),
    )
