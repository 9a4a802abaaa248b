"""Contents: immutable bytes, stored once, and found again where they are large."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    Connection,
    CursorResult,
    Select,
    any_,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from .clock import clock
from .database import Database
from .models import Tables


def store(connection: Connection, tables: Tables, body: bytes, now: clock, *, reuse: bool) -> int:
    """Return the id of a stored content with these bytes, inserting it where none is found.

    Only a committed row that nobody is removing is reused; an enqueue never waits for another
    request's transaction, so the same content may come to be stored twice.
    """
    digest = hashlib.sha256(body).digest() if reuse else None
    if digest is not None:
        found = _find(connection, tables, digest, len(body))
        if found is not None:
            return found
    row = {"sha256": digest} | _columns(body)
    result = connection.execute(insert(tables.content).values(created_at=now), row)
    return inserted_id(result)


def inserted_id(result: CursorResult[Any]) -> int:
    """Return the id that an INSERT of one row was given."""
    key = result.inserted_primary_key
    assert key is not None  # noqa: S101  (typed optional for other kinds of statements)
    return int(key[0])


def _columns(body: bytes) -> dict[str, Any]:
    return {"size": len(body), "crc32": crc32(body), "body": body}


def store_many(
    connection: Connection, tables: Tables, bodies: list[bytes], now: clock
) -> list[int]:
    """Insert many contents and return their ids in the same order."""
    if not connection.dialect.insert_executemany_returning_sort_by_parameter_order:
        return [store(connection, tables, body, now, reuse=False) for body in bodies]
    content = tables.content
    statement = insert(content).values(created_at=now)
    rows = [_columns(body) for body in bodies]
    result = connection.execute(
        statement.returning(content.c.id, sort_by_parameter_order=True), rows
    )
    return [int(row.id) for row in result.all()]


def _find(connection: Connection, tables: Tables, digest: bytes, size: int) -> int | None:
    content = tables.content
    same = (content.c.sha256 == digest) & (content.c.size == size)
    if connection.dialect.name == "sqlite":
        # A write that changes nothing takes the write lock, and with it keeps purge away.
        first = select(content.c.id).where(same).limit(1).scalar_subquery()
        found = connection.execute(
            update(content).where(content.c.id == first).values(size=size).returning(content.c.id)
        )
        return found.scalar()
    if connection.dialect.name in ("mysql", "mariadb"):
        # A locking read by hash would lock the gaps beside it, and others' inserts would wait.
        first_id = connection.execute(select(content.c.id).where(same).limit(1)).scalar()
        if first_id is None:
            return None
        same = content.c.id == first_id
    # The lock keeps purge away until this transaction ends; a row that purge holds is skipped.
    found = connection.execute(
        select(content.c.id)
        .where(same)
        .limit(1)
        .with_for_update(read=True, key_share=True, skip_locked=True)
    )
    return found.scalar()


def read(connection: Connection, database: Database, ids: Iterable[int]) -> dict[int, bytes]:
    """Return the contents of these ids. One that is missing or damaged is missing in the answer."""
    rows = connection.execute(database.built(_among), {"ids": sorted(set(ids))})
    return {key: body for key, crc, body in rows if crc32(body) == crc}


def _among(database: Database) -> Select[int, int, bytes]:
    content = database.tables.content.c
    if database.dialect == "postgresql":  # one array: the statement's text is always the same
        chosen = content.id == any_(bindparam("ids", type_=ARRAY(BigInteger)))
    else:
        chosen = content.id.in_(bindparam("ids", expanding=True))
    return select(content.id, content.crc32, content.body).where(chosen)
