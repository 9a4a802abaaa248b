"""How much may go over each server: nothing, one probe, the batches of a ramp, or any number."""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    case,
    exists,
    or_,
    select,
    union_all,
)

from ..domain.circuit_breaker import RAMP, RAMP_SECONDS, BreakerState
from .database import Database

OPEN = -1
HALF_OPEN = 0
"""What `limits` say of a server to which nothing may go, and of one that waits for a probe."""


def limits(database: Database) -> CompoundSelect[str, int | None]:
    """Select `name` and `limit` of every server that has one, for the one statement of a sweep.

    OPEN: nothing may be claimed for it. HALF_OPEN: one probe, by who gets it. Above 0: it has just
    come back, and so many batches may be in flight on it. One that is not among them has no limit.
    Each table is read as a whole, so that many servers cost no more than their rows.
    """
    breaker, servers = database.tables.breaker.c, database.tables.server.c
    is_open = breaker.state == BreakerState.OPEN
    opened = select(
        breaker.server.label("name"),
        case((is_half_open(database), HALF_OPEN), else_=OPEN).label("limit"),
    ).where(is_open)
    ramp = select(servers.name, _ramp(database)).where(
        servers.recovered_at > database.now(-RAMP_SECONDS),
        servers.name.not_in(select(breaker.server).where(is_open)),
    )
    return union_all(opened, ramp)


def is_open(database: Database, server: str) -> ColumnElement[bool]:
    """Return whether nothing may go over this server but a probe."""
    breaker = database.tables.breaker.c
    return exists().where(breaker.server == server, breaker.state == BreakerState.OPEN)


def any_known(database: Database) -> ColumnElement[bool]:
    """Return whether any server is suspected or open: then `read` is worth its statement."""
    return exists(select(database.tables.breaker.c.server))


def recovering(database: Database) -> ColumnElement[bool]:
    """Return whether any server has just come back."""
    servers = database.tables.server.c
    return exists(select(servers.name).where(servers.recovered_at > database.now(-RAMP_SECONDS)))


def ramps(connection: Connection, database: Database) -> dict[str, int]:
    """Return how many batches may be in flight on each server that has just come back."""
    servers = database.tables.server.c
    since = servers.recovered_at > database.now(-RAMP_SECONDS)
    rows = connection.execute(select(servers.name, _ramp(database).label("most")).where(since))
    return {row.name: row.most for row in rows if row.most is not None}


def is_half_open(database: Database) -> ColumnElement[bool]:
    """Of an open breaker: its time has come, and no probe is under way."""
    breaker, lease = database.tables.breaker.c, database.tables.lease.c
    under_way = exists().where(lease.token == breaker.prober)
    return (breaker.retry_at <= database.now()) & or_(breaker.prober.is_(None), ~under_way)


def _ramp(database: Database) -> ColumnElement[int | None]:
    recovered = database.tables.server.c.recovered_at
    return case(*((recovered > database.now(-until), batches) for until, batches in RAMP))
