"""Caps the batches in flight on a server, exactly and over all workers.

A lease counts until it is ended or rescued. That holds even after it ran out, because its worker
may still renew it. So the connection of a worker that died becomes free with its rescue, or as soon
as its host knows of its death.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection, func, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent


def take_server(
    database: Database,
    token: UUID,
    candidates: Sequence[str],
    caps: Mapping[str, int],
    *,
    held: str | None = None,
) -> str | None:
    """Give the lease of this token the first candidate that has room; return its name, or None.

    None means that all servers are full or the lease is lost, and nothing was changed. `caps` has
    the servers with a cap. If the first candidate has no cap, no statement is sent, unless the
    lease has `held` a connection to a capped server: that becomes free. The lease keeps the
    connection as long as it lasts.
    """
    if candidates and candidates[0] not in caps and held not in caps:
        return candidates[0]
    # A server without a cap always has room, so the candidates after it are never needed.
    free = next((place for place, name in enumerate(candidates) if name not in caps), None)
    tried = candidates if free is None else candidates[: free + 1]

    def work(connection: Connection) -> str | None:
        capped = sorted(set(tried) & caps.keys())
        _lock(connection, database, capped)
        taken = _taken(connection, database, token, capped)
        for name in tried:
            if name not in caps or taken.get(name, 0) < caps[name]:
                return name if _assign(connection, database, token, name) else None
        return None

    return database.run(work)


def in_flight(connection: Connection, database: Database) -> dict[str, int]:
    """Return how many batches hold a connection to each server that has a cap."""
    lease = database.tables.lease.c
    statement = select(lease.server, func.count()).where(lease.server.is_not(None))
    rows = connection.execute(statement.group_by(lease.server).order_by(lease.server))
    return {name: count for name, count in rows}  # noqa: C416  (to mypy a row is not a pair)


def _lock(connection: Connection, database: Database, names: Sequence[str]) -> None:
    """Lock the servers' rows in the order of their names, so that two lockers cannot deadlock.

    Under the lock one worker at a time counts and takes, which makes the cap exact.
    """
    if not names:
        return
    table = database.tables.server
    locked = select(table.c.name).where(table.c.name.in_(names)).order_by(table.c.name)
    found = set(connection.execute(locked.with_for_update()).scalars())
    missing = [name for name in names if name not in found]
    for name in missing:  # the first time
        insert_if_absent(connection, table, name=name)
    if missing:
        connection.execute(locked.with_for_update()).all()


def _taken(
    connection: Connection, database: Database, token: UUID, names: Sequence[str]
) -> dict[str, int]:
    """Count the other batches on these servers.

    This is a separate statement after the lock, so that it sees what other workers committed.
    """
    lease = database.tables.lease.c
    statement = (
        select(lease.server, func.count())
        .where(lease.server.in_(names), lease.token != token)
        .group_by(lease.server)
    )
    rows = connection.execute(statement)
    return {name: count for name, count in rows}  # noqa: C416  (as above)


def _assign(connection: Connection, database: Database, token: UUID, name: str) -> bool:
    lease = database.tables.lease
    statement = update(lease).where(lease.c.token == token).values(server=name)
    return connection.execute(statement).rowcount == 1
