"""Reads emails step by step in the order of their ids, by the index that has what they share.

A scan goes through all emails between two ids. A step reads only the emails that one index has, and
says where the next step begins: a request can do a part, and another request the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, select

from ..connection.database import Database
from ..connection.list_parts import among, parts

LOOK = 2000
"""The most emails that one step reads."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Which emails are gone through, in which order, and which of them are wanted."""

    among: tuple[ColumnElement[bool], ...]  # what the index has; the id bounds it, if it is empty
    wanted: ColumnElement[bool]
    newest_first: bool = False


@dataclass(frozen=True, kw_only=True)
class IdStep:
    """The wanted emails of a step."""

    ids: Sequence[int]
    next: int | None  # the id that was read last: the next step begins behind it; None: the end


def read_step(connection: Connection, database: Database, walk: Walk, after: int | None) -> IdStep:
    """Read the step behind the email with the id `after`, or the first one."""
    email, which = database.tables.email, list(walk.among)
    if after is not None:
        which.append(email.c.id < after if walk.newest_first else email.c.id > after)
    ids = newest_ids if walk.newest_first else oldest_ids
    some = connection.execute(ids(database, *which, limit=LOOK)).scalars().all()
    wanted = {
        found
        for part in parts(sorted(some))
        for found in connection.execute(
            select(email.c.id).where(among(database, part), walk.wanted)
        ).scalars()
    }
    end = some[-1] if len(some) == LOOK else None
    return IdStep(ids=[one for one in some if one in wanted], next=end)


def newest_ids(database: Database, *which: ColumnElement[bool], limit: int) -> Select[int]:
    """Return the statement for the highest ids of the emails that fulfil this.

    It reads the ids alone, which an index has. For another column PostgreSQL may go through all
    emails in the order of their ids, if it expects to meet enough of those that are wanted.
    """
    email = database.tables.email.c
    return select(email.id).where(*which).order_by(email.id.desc()).limit(limit)


def oldest_ids(database: Database, *which: ColumnElement[bool], limit: int) -> Select[int]:
    """Return the statement for the lowest ids, likewise."""
    email = database.tables.email.c
    return select(email.id).where(*which).order_by(email.id).limit(limit)
