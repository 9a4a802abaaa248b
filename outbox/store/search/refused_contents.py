"""Servers that refuse many emails for their contents: how many failed lately, and how many wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from sqlalchemy import Connection, func, select

from ...domain.delivery.refusal_fingerprint import codes_in
from ...domain.delivery.transaction import Phase
from ...domain.priority import Priority
from ..connection.database import Database
from ..queries.standstill import MOST_COUNTED
from ..queries.sweep.lane_keys import marked, ways
from ..queries.waiting import LATELY, failed_lately
from ..report_records import RefusedContents, ServerStatus
from .problems import last_attempts

_Refusal = tuple[str, int, str]
"""A server, a code and an enhanced code."""


def refused_contents(
    connection: Connection,
    database: Database,
    servers: Iterable[ServerStatus],
    *,
    least: int,
    failed: int | None,
    servers_of: Callable[[str], Collection[str]],
) -> tuple[RefusedContents, ...]:
    """Return those of the servers that are halted for this, and any that refused `least` lately.

    `failed`: how many emails failed lately, where that is known. Mostly they are few and no server
    is halted: then nothing is read. `servers_of` returns the names of the servers that emails of a
    lane may go over.
    """
    halted = {
        (one.server, *codes)
        for one in servers
        if one.configured and one.next_probe and (codes := codes_in(one.reason)) is not None
    }
    if not halted and failed is not None and failed < least:
        return ()
    found = _failed(connection, database)
    many = {one for one, emails in found.items() if emails >= least}
    return tuple(
        RefusedContents(
            server=one[0],
            code=one[1],
            enhanced=one[2],
            failed=found[one],
            waiting=_waiting(connection, database, one[0], servers_of) if one in halted else 0,
            is_halted=one in halted,
        )
        for one in sorted(many | halted, key=lambda one: (-found[one], one))
    )


def _failed(connection: Connection, database: Database) -> Counter[_Refusal]:
    ids = [int(row.id) for row in connection.execute(database.built(failed_lately))]
    last = last_attempts(connection, database, ids).values() if ids else ()
    return Counter(
        (server, code, enhanced) for _, phase, code, enhanced, server in last if phase == Phase.DOT
    )


def _waiting(
    connection: Connection,
    database: Database,
    server: str,
    servers_of: Callable[[str], Collection[str]],
) -> int:
    """Count the emails that are due, or soon: those that it has refused are put behind the rest."""
    email = database.tables.email.c
    found = connection.execute(ways(database), marked(database, {})).all()
    lanes = {way.lane for way in found if server in servers_of(way.lane)}
    some = (
        select(email.id)
        .where(email.priority.in_(list(map(int, Priority))), email.lane.in_(lanes))
        .where(email.due_at <= database.now(LATELY))
        .limit(MOST_COUNTED)
        .subquery("some_waiting")
    )
    return connection.scalar(select(func.count()).select_from(some)) or 0
