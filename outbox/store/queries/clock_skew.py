"""Compares this host's clock with the database's, by which emails come to be due."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import select

from ..connection.database import Database
from ..schema.clock import utc

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
