"""The purge's mark: one row with how far it has come, and the lease of the purge that runs.

Only one purge runs at a time: it holds the lease, and each of its transactions locks the mark.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, delete, select, update

from ..connection.database import Database
from ..connection.insert_if_absent import insert_if_absent
from ..connection.row_locks import locking
from ..schema.clock import utc

LEASE = 60.0
"""Seconds of the lease, which each chunk renews. A purge that died blocks others no longer."""


UNDER_WAY = "another purge is under way"


class PurgeUnderWay(Exception):
    """Raised because another purge has the lease."""


def take(connection: Connection, database: Database, token: UUID) -> datetime | None:
    """Take the lease; return the database's time, or None if another purge has it."""
    table = database.tables.purge
    if connection.execute(select(table.c.id)).first() is None:
        _make(connection, database)
    mark = select(table, database.now().label("now"))
    row = connection.execute(locking(mark, table, skip_locked=True)).one_or_none()
    # A host that vanished within a chunk keeps the mark locked, and no purge may wait for it.
    if row is None or _is_leased(row):
        return None
    connection.execute(update(table).values(token=token, expires_at=database.now(LEASE)))
    return utc(row.now)


def _is_leased(row: Any) -> bool:
    """Whether the lease still runs. With more than LEASE seconds to run a clock was ahead."""
    if row.expires_at is None:
        return False
    return 0.0 < (utc(row.expires_at) - utc(row.now)).total_seconds() <= LEASE


def _make(connection: Connection, database: Database) -> None:
    """Write a mark before the first email, in a new database or if somebody removed the mark."""
    for notes in (database.tables.straggler, database.tables.body_straggler):
        connection.execute(delete(notes))
    fresh = dict.fromkeys(("walked", "searched", "bodies_walked", "bodies_searched"), 0)
    insert_if_absent(connection, database.tables.purge, id=1, **fresh)


def lock(connection: Connection, database: Database, token: UUID) -> Any:
    """Lock the mark until the commit; return it with the time, or None if another has it locked.

    A purge that asks for the lease has it locked for a moment. Raises PurgeUnderWay if the lease is
    lost.
    """
    table = database.tables.purge
    mine = select(table, database.now().label("now")).where(table.c.token == token)
    row = connection.execute(locking(mine, table, skip_locked=True)).one_or_none()
    if row is None:
        seen = connection.execute(mine).one_or_none()
        # Past its lease a purge stops to try: whoever has the mark may have taken the lease.
        if seen is None or not _is_leased(seen):
            raise PurgeUnderWay(UNDER_WAY)
    return row


def keep(connection: Connection, database: Database, token: UUID, **marks: int) -> None:
    """Store new marks and renew the lease."""
    table = database.tables.purge
    values = {"expires_at": database.now(LEASE), **marks}
    connection.execute(update(table).where(table.c.token == token).values(values))


def release(connection: Connection, database: Database, token: UUID) -> bool:
    """End the lease; return False if it stays, because another transaction has the mark locked."""
    table = database.tables.purge
    mine = select(table.c.id).where(table.c.token == token)
    if connection.execute(locking(mine, table, skip_locked=True)).first() is None:
        return connection.execute(mine).first() is None
    ended = update(table).where(table.c.token == token)
    connection.execute(ended.values(token=None, expires_at=None))
    return True
