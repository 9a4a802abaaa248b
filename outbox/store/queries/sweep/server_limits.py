"""How many batches may go over each server: none, one probe, those of a ramp, or any number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, exists, select

from ....domain.delivery.breaker_timing import RAMP_SECONDS, BreakerState, ramp_limit
from ...connection.database import Database
from ...control.circuit_breaker import is_half_open
from ...schema.clock import utc
from .tagged_rows import Findings, constant, finding

OPEN = -1
HALF_OPEN = 0
"""The limits of a server to which nothing may go, and of a server that waits for a probe."""


def limiting(database: Database) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield the parts of a sweep's statement that read the servers, for `limits`.

    Each table is read as a whole, so that many servers cost no more than their rows.
    """
    breaker, servers = database.tables.breaker.c, database.tables.server.c
    number = case((is_half_open(database), constant(HALF_OPEN)), else_=constant(OPEN))
    is_open = breaker.state == BreakerState.OPEN
    yield finding("halted", breaker.server, number=number).where(is_open)
    back = finding("back", servers.name, moment=servers.recovered_at)
    yield back.where(_is_recovering(database))


def limits(found: Findings) -> dict[str, int]:
    """Return the limits by server. A server that is left out has no limit.

    OPEN: nothing may be claimed for it. HALF_OPEN: one probe, for the first process that takes it.
    Above 0: it has just come back, and this many batches may be in flight on it.
    """
    ramp = {row.name: ramp_limit(found.age(row.moment)) for row in found["back"]}
    halted = {row.name: int(row.number) for row in found["halted"]}
    return {name: most for name, most in ramp.items() if most is not None} | halted


def is_open(database: Database, server: str) -> ColumnElement[bool]:
    """Return the condition: only a probe may go over this server."""
    breaker = database.tables.breaker.c
    return exists().where(breaker.server == server, breaker.state == BreakerState.OPEN)


def any_known(database: Database) -> ColumnElement[bool]:
    """Return the condition: any server is suspected or halted, so the breakers must be read."""
    return exists(select(database.tables.breaker.c.server))


def recovering(database: Database) -> ColumnElement[bool]:
    """Return the condition: any server has just come back."""
    return exists(select(database.tables.server.c.name).where(_is_recovering(database)))


def ramps(connection: Connection, database: Database) -> dict[str, int]:
    """Return how many batches may be in flight on each server that has just come back."""
    servers = database.tables.server.c
    statement = select(servers.name, servers.recovered_at, database.now().label("now"))
    ages = {
        row.name: (utc(row.now) - utc(row.recovered_at)).total_seconds()
        for row in connection.execute(statement.where(_is_recovering(database)))
    }
    ramp = {name: ramp_limit(age) for name, age in ages.items()}
    return {name: most for name, most in ramp.items() if most is not None}


def _is_recovering(database: Database) -> ColumnElement[bool]:
    """Return the condition: the server has just come back, by the rule of `allowed`."""
    at = database.tables.server.c.recovered_at
    return and_(at > database.now(-RAMP_SECONDS), at < database.now(RAMP_SECONDS))
