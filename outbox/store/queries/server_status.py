"""How each server stands: usable, halted and why, coming back, and how much is in flight on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from ...domain.delivery.breaker_rules import allowed
from ..connection.database import Database
from ..control import circuit_breaker
from ..control.connection_caps import in_flight
from ..schema.clock import utc


def standings(
    connection: Connection, database: Database, servers: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the standing of each of these servers, and of those that are halted beside them.

    `state` is a word of `BreakerState`; half-open: a probe is due or under way. `configured` is
    False for one that is halted in the table and no longer among the `servers`: it raises no alert.
    """
    halted = _halted(connection, database)
    comebacks = _recovering(connection, database)
    busy = in_flight(connection, database)
    closed = {"failures": 0, "since": None, "next_probe": None, "alert": False, "reason": ""}
    return [
        {
            "server": name,
            "configured": name in servers,
            "state": "recovering" if name in comebacks else "closed",
            **closed,
            **halted.get(name, {}),
            "batches_allowed": None if name in halted else comebacks.get(name),
            "connections": busy.get(name, 0),
        }
        for name in [*servers, *(name for name in sorted(halted) if name not in servers)]
    ]


def alerts(standings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those that a person must see to."""
    return [one for one in standings if one["alert"] and one["configured"]]


def _halted(connection: Connection, database: Database) -> dict[str, dict[str, Any]]:
    return {
        breaker.server: {
            "state": breaker.state.value,
            "failures": breaker.failures,
            "since": breaker.opened_at.isoformat(),
            "next_probe": breaker.retry_at.isoformat() if breaker.is_open else None,
            "alert": breaker.alert,
            "reason": breaker.reason,
        }
        for breaker in circuit_breaker.read(connection, database).values()
    }


def _recovering(connection: Connection, database: Database) -> dict[str, int]:
    table = database.tables.server
    statement = select(table, database.now().label("now")).where(table.c.recovered_at.is_not(None))
    found: dict[str, int] = {}
    for row in connection.execute(statement):
        batches = allowed((utc(row.now) - utc(row.recovered_at)).total_seconds())
        if batches is not None:
            found[row.name] = batches
    return found
