"""claimed → claimed, started: a send task starts its batch, which is possible once."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, Update, and_, bindparam, not_, select, update

from ...domain.delivery.status import Status
from ...domain.fleet import ProcessId
from ..connection.database import Database
from ..connection.shared_rows import LockedElsewhere, run_patiently
from ..control import lease
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
    task of its process has the token now, so a lease that this process has started is its own, if
    no window was opened with it. A lease whose row stays locked is not started: it runs out, and
    its emails go back uncharged.
    """

    names = ("boot", "pid", "start")
    known = {name: getattr(process, name) if process else None for name in names}

    def begin(connection: Connection) -> bool:
        starting = database.built(_start, lease_seconds)
        if lease.change(connection, database, starting, token, by=worker, **known):
            return True
        if not (again and process):
            return False
        own = _own(database, process, lease_seconds)
        return lease.change(connection, database, own, token)

    def begun(connection: Connection) -> bool:
        if begin(connection):
            return True
        is_free = lease.lock(connection, database, token)  # raises LockedElsewhere
        return is_free and begin(connection)  # its row may have come free in between

    def work(connection: Connection) -> Batch | None:
        # The start comes last. So an error of a read leaves nothing that has started, although each
        # statement may commit alone. Whatever changes in between, a window's opening sees.
        batch = claimed_batch.load(connection, database, token)
        if batch is None:  # a replica that lags behind may answer so: the lease stays unstarted
            return None
        return batch if begun(connection) else None

    try:
        return run_patiently(database, work, each=database.facts.returning)
    except LockedElsewhere:
        lease.forget_locked(database, token)  # this process does not ask for it again
        return None


def _start(database: Database, lease_seconds: float) -> Update:
    """Return the statement that starts the lease, unless it was started or left before.

    The end of a batch leaves it, without emails and run out, where a row was locked. That end may
    be repeated, and gives back what it finds: no other task may send it meanwhile.
    """
    table = database.tables.lease
    is_left = and_(table.c.emails == 0, table.c.expires_at <= database.now())
    return (
        update(table)
        .where(lease.this(database), table.c.started_at.is_(None), not_(is_left))
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


def _own(database: Database, process: ProcessId, lease_seconds: float) -> Update:
    """Return the statement that renews the lease if this process has started it, and sent nothing.

    A window that was open is an earlier task's: the same token came again. What that task has sent
    may still wait to be recorded.
    """
    table, email = database.tables.lease, database.tables.email.c
    opened = select(email.id).where(email.token == table.c.token, email.status == Status.SENDING)
    ours = table.c.boot == process.boot, table.c.pid == process.pid
    started = table.c.process_start == process.start, table.c.started_at.is_not(None)
    return (
        update(table)
        .where(lease.this(database), *ours, *started, ~opened.exists())
        .values(expires_at=database.now(lease_seconds), suspected_at=None)
    )
