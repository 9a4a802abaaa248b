"""Tells whether due emails may be claimed, or whether other transactions have locked them all.

A snapshot has what is committed, and not which rows are locked. Only a locking read tells that. Its
lock ends with the read. A claim at that very moment passes the email over. So a batch that finds a
free email has a sweep follow, and a sweep that finds none claims nothing of that way.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ....domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ...connection.database import Database
from ...control.passed_over import passed_over
from ...due_emails import due_statement

MOST = 200
"""The most ways (pairs of lane and priority) that are asked for. There is a statement for each, and
it reads as many emails as are locked before the first one that is free."""


def is_any_free(database: Database, ways: Iterable[LaneKey], *, seconds: float = 0.0) -> bool:
    """Return whether an email of these ways has been due for `seconds`, and is free.

    Where all are locked in the first MOST ways, the others are not asked for.
    """
    return any(_is_free(database, way, seconds) for way in islice(ways, MOST))


def locked_ways(database: Database, ways: Iterable[LaneKey]) -> set[LaneKey]:
    """Return those of the first MOST ways whose due emails are all locked."""
    return {way for way in islice(ways, MOST) if not _is_free(database, way, 0.0)}


def _is_free(database: Database, way: LaneKey, seconds: float) -> bool:
    if database.facts.one_writer and not database.failing:
        return True  # nobody locks a row there without locking all of them
    lane, priority = way
    failing = passed_over(database)  # no claim of this process takes them
    one = ClaimRequest(lane=lane, priority=priority, batches=1, size=1 + len(failing))
    statement = due_statement(database.tables, one, database.now(-seconds))
    found = database.run(lambda connection: connection.execute(statement).all())
    return any(row.id not in failing for row in found)
