"""Finds which encryption keys stored emails need, without reading all contents."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, select, union

from ..connection.database import Database
from .sweep.tagged_rows import finding
from .waiting import first_waiting

LOOKED_AT = 1000
"""How many contents are looked at from each end, and how many waiting emails."""
LOOKED_AT_OFTEN = 200
"""How many waiting emails are looked at where somebody asks every few seconds."""


def needed(connection: Connection, database: Database) -> frozenset[str]:
    """Return the ids of the keys that the oldest, newest and waiting emails need, and the jobs.

    What is encrypted of a job are its filters.
    """
    return frozenset(connection.execute(database.built(_needed)).scalars())


def term(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the keys with which the next emails that wait are encrypted."""
    found = _of_waiting(database, LOOKED_AT_OFTEN).subquery("next_contents").c
    is_one = found.key_id.is_not(None)
    key = select(found.key_id).where(is_one).distinct().subquery("next_keys").c
    return finding("key", key.key_id)


def _of_waiting(database: Database, most: int) -> Select[Any]:
    content, email = database.tables.content.c, database.tables.email.c
    waiting = first_waiting(database, email.content_id, limit=most).subquery()
    return select(content.id, content.key_id).join(waiting, waiting.c.content_id == content.id)


def _needed(database: Database) -> Select[Any]:
    content = database.tables.content.c
    oldest = select(content.id, content.key_id).order_by(content.id).limit(LOOKED_AT)
    newest = select(content.id, content.key_id).order_by(content.id.desc()).limit(LOOKED_AT)
    job = database.tables.job.c
    of_jobs = select(job.id, job.key_id).where(job.sealed.is_not(None))
    of_waiting = _of_waiting(database, LOOKED_AT)
    ends = (select(one.subquery()) for one in (oldest, newest, of_waiting, of_jobs))
    found = union(*ends).subquery()
    return select(found.c.key_id).distinct().where(found.c.key_id.is_not(None))
