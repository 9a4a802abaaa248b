"""Finds which encryption keys stored emails need, without reading all contents."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select, union

from ..connection.database import Database

LOOKED_AT = 1000
"""How many contents are looked at from each end, and how many waiting emails."""


def needed(connection: Connection, database: Database) -> frozenset[str]:
    """Return the ids of the keys with which the oldest, newest and waiting emails are encrypted."""
    return frozenset(connection.execute(database.built(_needed)).scalars())


def _needed(database: Database) -> Select[Any]:
    content, email = database.tables.content.c, database.tables.email.c
    oldest = select(content.id, content.key_id).order_by(content.id).limit(LOOKED_AT)
    newest = select(content.id, content.key_id).order_by(content.id.desc()).limit(LOOKED_AT)
    waiting = (  # in the order of their index
        select(email.content_id)
        .where(email.due_at.is_not(None))
        .order_by(email.priority, email.lane, email.due_at, email.id)
        .limit(LOOKED_AT)
        .subquery()
    )
    of_waiting = select(content.id, content.key_id).join(
        waiting, waiting.c.content_id == content.id
    )
    ends = (select(one.subquery()) for one in (oldest, newest, of_waiting))
    found = union(*ends).subquery()
    return select(found.c.key_id).distinct().where(found.c.key_id.is_not(None))
