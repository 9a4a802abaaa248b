"""Caps the batches in flight on a server, exactly and over all workers.

A lease counts until it is ended or rescued. That holds even after it ran out, because its worker
may still renew it. So the connection of a worker that died becomes free with its rescue, or as soon
as its host knows of its death.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, func, select, update

from ..connection.database import Database
from ..connection.shared_rows import LockedElsewhere, avoided, lock, run_patiently
from . import lease


def take_server(
    database: Database,
    token: UUID,
    candidates: Sequence[str],
    caps: Mapping[str, int],
    *,
    current: str | None = None,
) -> str | None:
    """Give the lease of this token the first candidate that has room; return its name, or None.

    None means that all servers are full or the lease is lost, and nothing was changed. `caps` has
    the servers with a cap. If the first candidate has no cap, no statement is sent, unless the
    lease has a connection to its `current` server, and that has a cap: then the connection becomes
    free. The lease keeps its connection as long as it lasts.

    A server whose row stays locked counts as full, because nobody can count its batches: the host
    that has locked it may have vanished. A lease whose row stays locked counts as lost.
    """
    if candidates and candidates[0] not in caps and current not in caps:
        return candidates[0]
    # A server without a cap always has room, so the candidates after it are never needed.
    free = next((place for place, name in enumerate(candidates) if name not in caps), None)
    tried = candidates if free is None else candidates[: free + 1]

    while True:
        try:
            return _take(database, token, tried, caps)
        except LockedElsewhere as error:
            # Where it is the lease that is locked, no server is left out, and none can be taken.
            others = [name for name in tried if name not in error.names]
            if not others or len(others) == len(tried):
                return None
            tried = others


def _take(
    database: Database, token: UUID, tried: Sequence[str], caps: Mapping[str, int]
) -> str | None:
    """Do what `take_server` does. Raises LockedElsewhere if a row of either table stays locked."""
    table, capped = database.tables.server, sorted(set(tried) & caps.keys())

    def work(connection: Connection) -> str | None:
        # Under the lock one worker at a time counts and takes, which makes the cap exact.
        lock(connection, database, select(table.c.name), table.c.name, capped, absent={})
        taken = _taken(connection, database, token, capped)
        for name in tried:
            if name not in caps or taken.get(name, 0) < caps[name]:
                return name if _assign(connection, database, token, name) else None
        return None

    return run_patiently(database, work)


def full_for_now(database: Database) -> Collection[str]:
    """Return the servers that this process takes for full, because it did not get their rows."""
    return avoided(database, database.tables.server).keys()


def _taken(
    connection: Connection, database: Database, token: UUID, names: Sequence[str]
) -> dict[str, int]:
    """Count the other batches on these servers.

    This is a separate statement after the lock, so that it sees what other workers committed.
    """
    table = database.tables.lease.c
    statement = (
        select(table.server, func.count())
        .where(table.server.in_(names), table.token != token)
        .group_by(table.server)
    )
    rows = connection.execute(statement)
    return {name: count for name, count in rows}  # noqa: C416  (as above)


def _assign(connection: Connection, database: Database, token: UUID, name: str) -> bool:
    """Note the server in the lease; return False if the lease is gone. Raises LockedElsewhere."""
    if not lease.lock(connection, database, token):
        return False
    table = database.tables.lease
    connection.execute(update(table).where(table.c.token == token).values(server=name))
    return True
