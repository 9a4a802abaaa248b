"""The state of each server: usable, halted and why, or coming back, and its batches in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, func, union_all

from ...domain.delivery.breaker_timing import BreakerState, ramp_limit
from ..connection.database import Database
from ..control import circuit_breaker
from ..records import Breaker
from ..report_records import ServerStatus
from .sweep.tagged_rows import Findings, finding, now


def server_statuses(
    connection: Connection,
    database: Database,
    servers: Sequence[str],
    found: Findings | None = None,
) -> tuple[ServerStatus, ...]:
    """Return the state of each of these servers, and of other servers that have a breaker's row.

    Half-open means that a probe is due or under way. A server that is not among the `servers`
    raises no alert. Whoever has read the `terms` already gives what was `found`.
    """
    halted = circuit_breaker.read(connection, database)
    if found is None:
        found = Findings(connection, database.built(_statement), {})
    comebacks = _recovering(found)
    busy = {row.name: row.emails for row in found["connections"]}
    names = [*servers, *(name for name in sorted(halted) if name not in servers)]
    return tuple(
        _status(
            name,
            halted.get(name),
            is_configured=name in servers,
            ramp=comebacks.get(name),
            connections=busy.get(name, 0),
        )
        for name in names
    )


def alerts(servers: Sequence[ServerStatus]) -> tuple[ServerStatus, ...]:
    """Return the configured servers that a person must see to."""
    return tuple(one for one in servers if one.alert and one.configured)


def _status(
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


def _statement(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(now(database), *terms(database))


def terms(database: Database) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield the statements for the servers that come back, and for the batches on each server."""
    server, lease = database.tables.server.c, database.tables.lease.c
    came_back = finding("recovered", server.name, moment=server.recovered_at)
    yield came_back.where(server.recovered_at.is_not(None))
    busy = finding("connections", lease.server, emails=func.count())
    yield busy.where(lease.server.is_not(None)).group_by(lease.server)


def _recovering(found: Findings) -> dict[str, int]:
    """Return by server how many batches it may be given, while it comes back."""
    batches = {row.name: ramp_limit(found.age(row.moment)) for row in found["recovered"]}
    return {name: most for name, most in batches.items() if most is not None}
