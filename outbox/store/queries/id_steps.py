"""Reads emails step by step in the order of their ids, by the index that has what they share.

A scan goes through all emails between two ids. A step reads only the emails that one index has, and
says where the next step begins: a request can do a part, and another request the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, select

from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import among, parts

LOOK = 2000
"""The most emails that one step reads."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Which emails are gone through, in which order, and which of them are wanted."""

    tag: str | None = None  # None: all emails
    lowest: int | None = None  # the lowest id
    wanted: ColumnElement[bool]
    newest_first: bool = False


@dataclass(frozen=True, kw_only=True)
class IdStep:
    """The wanted emails of a step."""

    ids: Sequence[int]
    next: int | None  # the id that was read last: the next step begins behind it; None: the end


def read_step(connection: Connection, database: Database, walk: Walk, after: int | None) -> IdStep:
    """Read the step behind the email with the id `after`, or the first one."""
    email = database.tables.email
    some = connection.execute(_step(database, walk, after)).scalars().all()
    wanted = {
        found
        for part in parts(sorted(some))
        for found in connection.execute(
            select(email.c.id).where(among(database, part), walk.wanted)
        ).scalars()
    }
    end = some[-1] if len(some) == LOOK else None
    return IdStep(ids=[one for one in some if one in wanted], next=end)


def _step(database: Database, walk: Walk, after: int | None) -> Select[int]:
    email = database.tables.email.c
    which = [] if walk.lowest is None else [email.id >= walk.lowest]
    if after is not None:
        which.append(email.id < after if walk.newest_first else email.id > after)
    order = email.id.desc() if walk.newest_first else email.id
    some = select(email.id) if walk.tag is None else ids_of_tag(database, walk.tag)
    return some.where(*which).order_by(order).limit(LOOK)


def ids_of_tag(database: Database, tag: str) -> Select[int]:
    """Return the statement for the ids of a tag's emails, to be bounded and ordered by the id.

    It reads the ids alone, which an index has. For another column PostgreSQL may go through all
    emails in the order of their ids, if it expects to meet enough of those that are wanted. MariaDB
    and MySQL are told the index: else they look up the tag in it, and read all emails between its
    end and the id that bounds them.
    """
    email = database.tables.email
    some = select(email.c.id).where(email.c.tag == tag)
    own = backend_of(database.dialect).go_by
    return some if own is None else own(some, email, "ix_outbox_email_tag")
