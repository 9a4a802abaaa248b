"""Compares this host's clock with the database's, by which emails come to be due.

It also finds the emails that wait because the database's clock was ahead when they were enqueued.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from ...domain.counted import counted
from ..backend import backend_of
from ..connection.database import Database
from ..due_times import HELD
from ..schema.clock import utc
from .sweep.lane_keys import marked, ways

MOST = 5.0
"""Seconds by which two clocks may differ without a warning; synchronised clocks differ by less."""


def seconds_ahead(database: Database, *, wall: Callable[[], float] = time.time) -> float:
    """Return by how many seconds this host's clock is surely ahead; negative if it is behind.

    `wall` is this host's clock. The time that the question takes does not count.
    """
    before = wall()
    moment = database.read(lambda c: c.execute(select(database.now())).scalar_one())
    after, theirs = wall(), utc(moment).timestamp()
    return before - theirs if theirs < before else min(0.0, after - theirs)


def skew_warnings(ahead: float) -> list[str]:
    """Return a line if the clocks differ by so much that an app's times are wrong."""
    if abs(ahead) < MOST:
        return []
    where = "ahead of" if ahead > 0 else "behind"
    return [
        f"this host's clock is {abs(ahead):.0f} s {where} the database's: send_at and expires_at,"
        " which the app computes, are off by as much; synchronise both clocks (NTP)"
    ]


AHEAD = 60.0
"""Seconds by which an email must have been enqueued in the future before that is told."""
LOOKED_AT = 1000
"""The most emails of a way that are looked at: those that are due next, from AHEAD on."""


def ahead_warnings(connection: Connection, database: Database) -> list[str]:
    """Return a line if emails wait because the clock was ahead when they were enqueued.

    The index of due emails leads to them, as they are due when they were enqueued. Many scheduled
    ones that are due before them may hide them.
    """
    rows = connection.execute(ways(database), marked(database, {})).all()
    found = [one for way in rows for one in connection.execute(_ahead(database, way))]
    if not found:
        return []
    last: datetime = max(utc(one.due_at) for one in found)
    now = utc(connection.execute(select(database.now())).scalar_one())
    first = min(one.id for one in found)
    told, seconds = counted(len(found), "email was", "emails were"), (last - now).total_seconds()
    return [_ENQUEUED.format(told=told, seconds=seconds, id=first)]


_ENQUEUED = (
    "{told} enqueued while the database's clock was ahead, and wait until it is that time: the last"
    " in {seconds:.0f} s. To have one leave now: flask outbox cancel --id {id}, then flask outbox"
    " send-again {id}"
)


def _ahead(database: Database, way: Row[Any]) -> Select[Any]:
    """Return the statement for those of a way that were never tried: no recipient has a copy."""
    table, soon = database.tables.email, database.now(AHEAD)
    email = table.c
    ids = (
        select(email.id)
        .where(email.priority == way.priority, email.lane == way.lane)
        .where(email.due_at > soon, email.due_at < HELD)
        .order_by(email.due_at, email.id)
        .limit(LOOKED_AT)
    )
    if (go_by := backend_of(database.dialect).go_by) is not None:
        ids = go_by(ids, table, "ix_outbox_email_due")
    next_ones = ids.subquery("next_ones")
    untried = (email.attempts == 0) & (email.unknown_count == 0)
    return (
        select(email.id, email.due_at)
        .join_from(next_ones, table, email.id == next_ones.c.id)
        .where(email.created_at > soon, email.send_at.is_(None), untried)
    )
