"""Purges the breakers of halted servers that no host has configured for a day.

No worker probes such a server, so nothing would ever close its breaker. But other hosts may have
another configuration. So each host notes the halted servers that it has configured.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, and_, delete, func, or_

from ..connection.database import Database
from ..connection.shared_rows import lock_free, update_free

KEPT = 86_400.0
"""Seconds for which a halted server is kept that no host has configured."""


def note_configured(database: Database, servers: Collection[str]) -> None:
    """Note, in the breakers that these servers have, that the servers are configured.

    A note from the future is left: `set_back` goes by it. A locked row is passed over.
    """
    breaker = database.tables.breaker
    is_past = or_(breaker.c.seen_at.is_(None), breaker.c.seen_at <= database.now())
    ours = breaker.c.server.in_(sorted(servers)) & is_past
    database.run(lambda c: update_free(c, breaker, ours, seen_at=database.now()))


def purge_servers(database: Database, servers: Collection[str]) -> int:
    """Remove breakers that nobody has noted, tripped or probed for a day; return their number.

    The breakers of `servers` are kept.
    """
    breaker = database.tables.breaker
    long_ago = database.now(-KEPT)
    unused = and_(
        breaker.c.server.not_in(sorted(servers)),
        breaker.c.retry_at <= long_ago,
        func.coalesce(breaker.c.seen_at, breaker.c.retry_at) <= long_ago,
    )

    def work(connection: Connection) -> int:
        free = lock_free(connection, breaker, unused)
        return connection.execute(delete(breaker).where(breaker.c.server.in_(free))).rowcount

    return database.run(work)
