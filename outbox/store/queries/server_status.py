"""The state of each server: usable, halted and why, or coming back, and its batches in flight."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from ...domain.delivery.breaker_timing import BreakerState, allowed
from ..connection.database import Database
from ..control import circuit_breaker
from ..control.connection_caps import in_flight
from ..records import Breaker
from ..report_records import ServerStatus
from ..schema.clock import utc


def standings(
    connection: Connection, database: Database, servers: Sequence[str]
) -> tuple[ServerStatus, ...]:
    """Return the state of each of these servers, and of other servers that have a breaker's row.

    Half-open means that a probe is due or under way. A server that is not among the `servers`
    raises no alert.
    """
    halted = circuit_breaker.read(connection, database)
    comebacks = _recovering(connection, database)
    busy = in_flight(connection, database)
    names = [*servers, *(name for name in sorted(halted) if name not in servers)]
    return tuple(
        _standing(
            name,
            halted.get(name),
            is_configured=name in servers,
            ramp=comebacks.get(name),
            connections=busy.get(name, 0),
        )
        for name in names
    )


def alerts(standings: Sequence[ServerStatus]) -> tuple[ServerStatus, ...]:
    """Return the configured servers that a person must see to."""
    return tuple(one for one in standings if one.alert and one.configured)


def _standing(
    name: str, breaker: Breaker | None, *, is_configured: bool, ramp: int | None, connections: int
) -> ServerStatus:
    closed = BreakerState.CLOSED if ramp is None else BreakerState.RECOVERING
    return ServerStatus(
        server=name,
        configured=is_configured,
        state=breaker.state if breaker else closed,
        failures=breaker.failures if breaker else 0,
        since=breaker.opened_at if breaker else None,
        next_probe=breaker.retry_at if breaker and breaker.is_open else None,
        alert=breaker.alert if breaker else False,
        reason=breaker.reason if breaker else "",
        batches_allowed=None if breaker else ramp,
        connections=connections,
    )


def _recovering(connection: Connection, database: Database) -> dict[str, int]:
    table = database.tables.server
    statement = select(table, database.now().label("now")).where(table.c.recovered_at.is_not(None))
    found: dict[str, int] = {}
    for row in connection.execute(statement):
        batches = allowed((utc(row.now) - utc(row.recovered_at)).total_seconds())
        if batches is not None:
            found[row.name] = batches
    return found
