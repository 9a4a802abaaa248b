"""Inserts an email and its content on PostgreSQL in one statement and one round trip."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.psycopg import prepared_statements
from ..new_email import COLUMNS, Values
from .copy import type_of

_STORED = """
    INSERT INTO {content} (size, crc32, sha256, key_id, body, subject, created_at) VALUES (
        %(content_size)s, %(content_crc32)s, %(content_sha256)s, {key_id}, %(content_body)s,
        %(content_subject)s, {now}
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
_WITH_OTHERS = """
WITH content AS MATERIALIZED ({source}),
email AS ({insert} RETURNING id){others}
SELECT {returned} FROM email
"""
_RECIPIENTS = """,
recipients AS (
    INSERT INTO {recipient} (email_id, position, address, status)
    SELECT email.id, listed.place - 1, listed.address, %(recipient_status)s
    FROM email, unnest(%(addresses)s::text[]) WITH ORDINALITY AS listed (address, place)
)"""
_LOOKUP = """,
looked_up AS (
    INSERT INTO {lookup} (digest, email_id)
    SELECT listed.digest, email.id FROM email, unnest(%(digests)s::bigint[]) AS listed (digest)
)"""
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
    digests: Collection[int],
) -> int:
    """Insert one email, with the id of a stored content or the columns of a new one; return its id.

    Each of `recipients` gets a row, and each of the `digests` by which it is looked up. The
    statement is in the driver's own form, because building and compiling it anew would take longer
    than running it.
    """
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    values["offset"] = database.offset
    if isinstance(content, int):
        values["content_id"] = content
    else:
        values |= {f"content_{name}": value for name, value in content.items()}
    if recipients:
        values |= {
            "addresses": list(recipients),
            "recipient_status": RecipientStatus.PENDING.value,
        }
    if digests:
        values["digests"] = "{" + ",".join(map(str, digests)) + "}"
    known = prepared_statements.is_known(connection)
    statement = database.built(
        _statement,
        isinstance(content, int),
        bool(recipients),
        bool(digests),
        known,
        database.offset != 0,
        values["redact"],
        values["traceparent"] is not None,
        database.cipher.key_id is not None,
    )
    found = connection.exec_driver_sql(statement, values).one()
    if not known:
        prepared_statements.learn(connection, found.backend)
    return int(found[0])


def _statement(
    database: Database,
    stored: bool,
    several: bool,
    looked_up: bool,
    known: bool,
    traveller: bool,
    redact: bool,
    traced: bool,
    encrypted: bool,
) -> str:
    """Return the statement for a `stored` or a new content, and for one or `several` recipients.

    It is `looked_up` if it has digests. If it is not `known` which process serves the connection,
    the statement returns that too. A `traveller` has an offset to the database's clock. Nearly no
    email is to `redact`, so this is in the text, too, and that it is not `traced`: a parameter for
    each would cost time. An `encrypted` content has a key's id.
    """
    tables = database.tables
    same = _NEW | {"redact": str(redact).lower()}
    same = same if several else same | {"recipients": "1"}
    same = same if traced else same | {"traceparent": "NULL"}
    inserted = _INSERT.format(
        email=database.name(tables.email),
        names=", ".join(COLUMNS),
        values=", ".join(
            same.get(name) or f"%({name})s::{type_of(tables.email.c[name])}" for name in COLUMNS
        ),
    )
    source = _FOUND if stored else _STORED
    others = _RECIPIENTS * several + _LOOKUP * looked_up
    return (_WITH_OTHERS if others else _ONE).format(
        source=source.format(
            content=database.name(tables.content),
            key_id="%(content_key_id)s" if encrypted else "NULL",
            now=_LATER if traveller else _NOW,
        ),
        insert=inserted,
        others=others.format(
            recipient=database.name(tables.recipient), lookup=database.name(tables.lookup)
        ),
        returned="id" if known else "id, pg_backend_pid() AS backend",
    )
