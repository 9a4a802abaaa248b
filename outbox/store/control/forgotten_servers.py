"""Forgets the breakers of halted servers that no host has configured for a day.

No worker probes such a server, so nothing would ever close its breaker. But other hosts may have
another configuration. So each host notes the halted servers that it has configured.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, func, or_, select, update

from ..connection.database import Database

KEPT = 86_400.0
"""Seconds for which a halted server is kept that no host has configured."""


def note_configured(database: Database, servers: Collection[str]) -> None:
    """Note, in the breakers that these servers have, that the servers are configured.

    A note from the future is left: `set_back` goes by it. Rows that others have locked are left,
    too: a note an hour later is early enough, and a sweep does not wait for a host that vanished.
    """
    breaker = database.tables.breaker
    is_past = or_(breaker.c.seen_at.is_(None), breaker.c.seen_at <= database.now())
    ours = select(breaker.c.server).where(breaker.c.server.in_(sorted(servers)), is_past)
    locked = ours.order_by(breaker.c.server).with_for_update(skip_locked=True)

    def work(connection: Connection) -> None:
        free = connection.execute(locked).scalars().all()
        seen = update(breaker).where(breaker.c.server.in_(free))
        connection.execute(seen.values(seen_at=database.now()))

    database.run(work)


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
