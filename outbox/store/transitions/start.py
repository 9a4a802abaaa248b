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
) -> Batch | None:
    """Start the batch of this token for `lease_seconds`; return its emails, or None.

    None means that the task came twice or late, and nothing was changed. A lease starts only once,
    and a rescued lease is gone. Of a `process` it is seen on its host that it has ended.
    """

    names = ("boot", "pid", "start")
    known = {name: getattr(process, name) if process else None for name in names}

    def work(connection: Connection) -> Batch | None:
        statement = database.built(_start, lease_seconds)
        started = connection.execute(statement, {"claim": token, "by": worker, **known})
        if started.rowcount != 1:
            return None
        return claimed_batch.load(connection, database, token)

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
