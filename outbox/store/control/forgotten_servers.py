"""Halted servers that nobody configures any more: their breakers are forgotten after a day.

Nobody probes such a server, so nothing would ever close its breaker. But other hosts may have
another configuration: whoever has a halted server in its own notes so, and that counts.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, update

from ..connection.database import Database

KEPT = 86_400.0
"""Seconds for which a halted server is kept that nobody has in a configuration."""


def note(database: Database, servers: Collection[str]) -> None:
    """Note that these servers are configured, where their breakers are open."""
    breaker = database.tables.breaker
    seen = update(breaker).where(breaker.c.server.in_(sorted(servers)))
    database.run(lambda connection: connection.execute(seen.values(seen_at=database.now())))


def forget(database: Database, servers: Collection[str]) -> int:
    """Forget the breakers of servers but these which nobody has noted, tripped or probed for a day.

    Returns how many they were.
    """
    breaker = database.tables.breaker
    long_ago = database.now(-KEPT)
    unused = (
        breaker.c.server.not_in(sorted(servers)),
        breaker.c.retry_at <= long_ago,
        func.coalesce(breaker.c.seen_at, breaker.c.retry_at) <= long_ago,
    )
    return database.run(lambda c: c.execute(delete(breaker).where(*unused)).rowcount)
