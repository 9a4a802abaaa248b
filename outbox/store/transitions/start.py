"""claimed → claimed, started: a send task starts its batch, which is possible once."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, Update, bindparam, update

from ...domain.fleet import ProcessId
from ..connection.database import Database
from ..queries import claimed_batch
from ..records import Batch


def start(
    database: Database,
    token: UUID,
    *,
    lease_seconds: float,
    worker: str,
    process: ProcessId | None = None,
    again: bool = False,
) -> Batch | None:
    """Start the batch of this token for `lease_seconds`; return its emails, or None.

    None means that the task came twice or late, and nothing was changed. A lease starts only once,
    and a rescued lease is gone. The lease notes the `process`, so that its host can see whether the
    process has ended. With `again` the caller repeats a start that failed. It knows that no other
    task of its process has the token, so a lease that this process has started is its own.
    """

    names = ("boot", "pid", "start")
    known = {name: getattr(process, name) if process else None for name in names}

    def work(connection: Connection) -> Batch | None:
        statement = database.built(_start, lease_seconds)
        started = connection.execute(statement, {"claim": token, "by": worker, **known})
        if started.rowcount != 1 and not (again and process and goes_on(connection, process)):
            return None
        return claimed_batch.load(connection, database, token)

    def goes_on(connection: Connection, process: ProcessId) -> bool:
        return connection.execute(_own(database, token, process, lease_seconds)).rowcount == 1

    return database.run(work)


def _start(database: Database, lease_seconds: float) -> Update:
    table = database.tables.lease
    return (
        update(table)
        .where(table.c.token == bindparam("claim"), table.c.started_at.is_(None))
        .values(
            started_at=database.now(),
            expires_at=database.now(lease_seconds),
            suspected_at=None,
            worker=bindparam("by"),
            boot=bindparam("boot"),
            pid=bindparam("pid"),
            process_start=bindparam("start"),
        )
    )


def _own(database: Database, token: UUID, process: ProcessId, lease_seconds: float) -> Update:
    """Return the statement that renews the lease if this process has started it."""
    table = database.tables.lease
    ours = table.c.boot == process.boot, table.c.pid == process.pid
    started = table.c.process_start == process.start, table.c.started_at.is_not(None)
    return (
        update(table)
        .where(table.c.token == token, *ours, *started)
        .values(expires_at=database.now(lease_seconds), suspected_at=None)
    )
