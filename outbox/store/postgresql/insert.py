"""Inserts an email and its content on PostgreSQL in one statement and one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..connection import prepared_statements
from ..connection.database import Database
from ..new_email import COLUMNS, Values
from .copy import type_of

_STORED = """
    INSERT INTO {content} (size, crc32, sha256, body, created_at) VALUES (
        %(content_size)s, %(content_crc32)s, %(content_sha256)s, %(content_body)s, {now}
    ) RETURNING id, created_at
"""
_FOUND = """
    SELECT %(content_id)s::bigint AS id, {now} AS created_at
"""
_ONE = """
WITH content AS MATERIALIZED ({source})
{insert}
RETURNING {returned}
"""
_SEVERAL = """
WITH content AS MATERIALIZED ({source}),
email AS ({insert} RETURNING id),
recipients AS (
    INSERT INTO {recipient} (email_id, position, address, status)
    SELECT email.id, listed.place - 1, listed.address, %(recipient_status)s
    FROM email, unnest(%(addresses)s::text[]) WITH ORDINALITY AS listed (address, place)
)
SELECT {returned} FROM email
"""
_INSERT = """
INSERT INTO {email} (content_id, created_at, due_at, {names})
SELECT id, created_at, coalesce(%(send_at)s::timestamptz, created_at), {values} FROM content
"""


_NEW = {
    "attempts": "0",
    "crashes": "0",
    "unknown_count": "0",
    "status": f"'{Status.PENDING.value}'",
}
"""The values that each new email has. A parameter takes a hundredth of an enqueue's time."""


_NOW = "clock_timestamp()"
_LATER = "clock_timestamp() + make_interval(secs => %(offset)s)"


def is_possible(connection: Connection) -> bool:
    """Return whether the driver takes this form of parameters: psycopg and psycopg2 do."""
    return connection.dialect.paramstyle == "pyformat"


def insert(
    connection: Connection,
    database: Database,
    row: Values,
    content: int | dict[str, Any],
    recipients: Sequence[str],
) -> int:
    """Insert one email, with the id of a stored content or the columns of a new one; return its id.

    Each of `recipients` gets a row. The statement is in the driver's own form, because building and
    compiling it anew would take longer than running it.
    """
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    values["offset"] = database.offset
    if isinstance(content, int):
        values["content_id"] = content
    else:
        values["content_size"], values["content_crc32"] = content["size"], content["crc32"]
        values["content_sha256"], values["content_body"] = content["sha256"], content["body"]
    if recipients:
        values |= {
            "addresses": list(recipients),
            "recipient_status": RecipientStatus.PENDING.value,
        }
    known = prepared_statements.is_known(connection)
    statement = database.built(
        _statement,
        isinstance(content, int),
        bool(recipients),
        known,
        database.offset != 0,
        values["redact"],
    )
    found = connection.exec_driver_sql(statement, values).one()
    if not known:
        prepared_statements.learn(connection, found.backend)
    return int(found[0])


def _statement(
    database: Database, stored: bool, several: bool, known: bool, traveller: bool, redact: bool
) -> str:
    """Return the statement for a `stored` or a new content, and for one or `several` recipients.

    If it is not `known` which process serves the connection, the statement returns that too. A
    `traveller` has an offset to the database's clock. Nearly no email is to `redact`, so this is in
    the text, too.
    """
    tables = database.tables
    same = _NEW | {"redact": str(redact).lower()}
    same = same if several else same | {"recipients": "1"}
    inserted = _INSERT.format(
        email=database.name(tables.email),
        names=", ".join(COLUMNS),
        values=", ".join(
            same.get(name) or f"%({name})s::{type_of(tables.email.c[name])}" for name in COLUMNS
        ),
    )
    source = _FOUND if stored else _STORED
    return (_SEVERAL if several else _ONE).format(
        source=source.format(
            content=database.name(tables.content), now=_LATER if traveller else _NOW
        ),
        insert=inserted,
        recipient=database.name(tables.recipient),
        returned="id" if known else "id, pg_backend_pid() AS backend",
    )
