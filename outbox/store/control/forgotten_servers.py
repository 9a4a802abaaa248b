"""Forgets the breakers of halted servers that no host has configured for a day.

No worker probes such a server, so nothing would ever close its breaker. But other hosts may have
another configuration. So each host notes the halted servers that it has configured.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, or_, update

from ..connection.database import Database

KEPT = 86_400.0
"""Seconds for which a halted server is kept that no host has configured."""


def note_configured(database: Database, servers: Collection[str]) -> None:
    """Note, in the breakers that these servers have, that the servers are configured.

    A note from the future is left: `set_back` goes by it.
    """
    breaker = database.tables.breaker
    is_past = or_(breaker.c.seen_at.is_(None), breaker.c.seen_at <= database.now())
    seen = update(breaker).where(breaker.c.server.in_(sorted(servers)), is_past)
    database.run(lambda connection: connection.execute(seen.values(seen_at=database.now())))


def forget(database: Database, servers: Collection[str]) -> int:
    """Forget breakers that nobody has noted, tripped or probed for a day; return their number.

    The breakers of `servers` are kept.
    """
    breaker = database.tables.breaker
    long_ago = database.now(-KEPT)
    unused = (
        breaker.c.server.not_in(sorted(servers)),
        breaker.c.retry_at <= long_ago,
        func.coalesce(breaker.c.seen_at, breaker.c.retry_at) <= long_ago,
    )
    return database.run(lambda c: c.execute(delete(breaker).where(*unused)).rowcount)
