"""Reads emails step by step in the order of their ids, by the index that has what they share.

A scan goes through all emails between two ids. A step reads only the emails that one index has, and
says where the next step begins: a request can do a part, and another request the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select

from ..connection.database import Database

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
    email = database.tables.email.c
    statement = select(email.id, walk.wanted.label("wanted")).where(*walk.among)
    if after is not None:
        behind = email.id < after if walk.newest_first else email.id > after
        statement = statement.where(behind)
    order = email.id.desc() if walk.newest_first else email.id
    rows = connection.execute(statement.order_by(order).limit(LOOK)).all()
    end = rows[-1].id if len(rows) == LOOK else None
    return IdStep(ids=[row.id for row in rows if row.wanted], next=end)
