"""Counts attempts in the transaction that logs them, by rows that are only appended.

A transaction appends a row per different key, so that counting waits for nobody. If the transaction
is rolled back, its counts go with its attempts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from ...domain.delivery.transaction import Verdict
from ...domain.figures.histogram import NO_BIN, bin_of
from ...domain.figures.spans import minute_of
from ...domain.scheduling.lanes import route_of_lane
from ..connection.database import Database
from ..connection.list_parts import among
from ..due_times import first_due
from ..inserts.bulk import insert_rows
from ..schema.clock import utc


class Key(NamedTuple):
    """What an attempt is counted by: the columns of `stat_tables.KEY`."""

    minute: int
    server: str
    route: str
    priority: int
    verdict: str
    code: int
    bin: int


def count_logged(
    connection: Connection, database: Database, logged: Sequence[Mapping[str, Any]]
) -> None:
    """Count these rows of the attempt log, which the same transaction has written."""
    if not logged:
        return
    email = database.tables.email
    ids = among(database, {row["email_id"] for row in logged})
    columns = select(email.c.id, email.c.lane, email.c.priority, first_due(email).label("due"))
    emails = {row.id: row for row in connection.execute(columns.where(ids))}
    counts = Counter(_key(row, emails[row["email_id"]]) for row in logged)
    _append(connection, database, counts)


def count_taken_back(
    connection: Connection, database: Database, logged: Sequence[Mapping[str, Any]]
) -> None:
    """Count these charged attempts as halted, and no longer under their old verdicts.

    They were counted when they were logged. Each row needs the lane and the priority of its email.
    """
    counts = Counter[Key]()
    for row in logged:
        old = _charged(row)
        counts[old] -= 1
        counts[old._replace(verdict=Verdict.HALT)] += 1
    _append(connection, database, counts)


def _key(attempt: Mapping[str, Any], email: Any) -> Key:
    key = _charged({**attempt, "lane": email.lane, "priority": email.priority})
    if key.verdict != Verdict.SENT:
        return key
    return key._replace(bin=bin_of(microseconds(email.due, attempt["finished_at"])))


def _charged(attempt: Mapping[str, Any]) -> Key:
    return Key(
        minute=minute_of(utc(attempt["finished_at"])),
        server=attempt["server"],
        route=route_of_lane(attempt["lane"]),
        priority=attempt["priority"],
        verdict=attempt["verdict"],
        code=attempt["code"],
        bin=NO_BIN,
    )


def microseconds(start: datetime, end: datetime) -> int:
    """Return the whole number of microseconds from one stored moment to another."""
    passed = utc(end) - utc(start)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _append(connection: Connection, database: Database, counts: Mapping[Key, int]) -> None:
    rows = [{**key._asdict(), "attempts": count} for key, count in counts.items()]
    insert_rows(connection, insert(database.tables.tally), rows)
