"""The lease of a claim: renewed while its worker lives, and ended with its batch.

A claim inserts it (`transitions/claim.py`), a send task starts it (`start.py`), and where it runs
out, the rescue judges it (`rescue.py`). A batch ends it in one of three ways. `drop` deletes it
where every result is recorded. `end` deletes it in the transaction that gives the rest back.
`leave` lets it run out, because a person's transaction still has some of its emails' rows locked.
`let_run_out` does so for a batch whose process is known to have ended, and `decline` for one that
no task has started.

A host that vanished in the midst of a rescue or a renewal may hold the lease's row for hours. So
whatever changes it passes over a row that is locked. A batch's end asks for it again for a moment,
and then leaves the lease to its expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Select,
    Update,
    bindparam,
    delete,
    false,
    or_,
    select,
    update,
)

from ...domain.fleet import ProcessId
from ..connection.database import Database
from ..connection.error_codes import may_be_of_a_row
from ..connection.row_locks import locking
from ..connection.shared_rows import LockedElsewhere, no_longer_avoided, run_patiently
from .circuit_breaker import forget_prober


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewal:
    """What became of leases that were to be renewed."""

    renewed: frozenset[UUID]
    """They last for a whole term again."""

    lost: frozenset[UUID]
    """They are gone. Those that are in neither set could not be renewed now."""


def renew(database: Database, tokens: Sequence[UUID], *, lease_seconds: float) -> Renewal:
    """Extend these leases to `lease_seconds` from now; return those renewed, and those lost.

    It waits for no other transaction. A host that vanished within its own may keep a row locked for
    hours, and the other leases must not run out meanwhile.
    """

    def work(connection: Connection) -> Renewal:
        renewed = frozenset(_renewed(connection, database, tokens, lease_seconds))
        missing = [token for token in tokens if token not in renewed]
        there: Sequence[UUID] = ()
        if missing:
            lease = database.tables.lease.c
            locked = select(lease.token).where(lease.token.in_(missing))
            there = connection.execute(locked).scalars().all()
        return Renewal(renewed=renewed, lost=frozenset(missing).difference(there))

    return database.run(work)


def _renewed(
    connection: Connection, database: Database, tokens: Sequence[UUID], lease_seconds: float
) -> Sequence[UUID]:
    """Renew the leases that nobody else has locked; return their tokens."""
    table = database.tables.lease
    ours = table.alias("ours")  # its rows are locked in one order, so two lockers cannot deadlock
    listed = select(ours.c.token).where(ours.c.token.in_(tokens)).order_by(ours.c.token)
    free = locking(listed, ours, skip_locked=True)
    values = {"expires_at": database.now(lease_seconds), "suspected_at": None}
    if database.facts.returning:
        renewal = update(table).where(table.c.token.in_(free)).values(**values)
        return connection.execute(renewal.returning(table.c.token)).scalars().all()
    found = connection.execute(free).scalars().all()
    connection.execute(update(table).where(table.c.token.in_(found)).values(**values))
    return found


def is_not_noted(database: Database) -> ColumnElement[bool]:
    """Return the condition: no sweep has noted yet, by the clock as it is, that the lease ran out.

    A note from the future was made while the clock was ahead.
    """
    suspected_at = database.tables.lease.c.suspected_at
    return or_(suspected_at.is_(None), suspected_at > database.now())


def is_any(connection: Connection, database: Database) -> bool:
    """Return whether a batch is in flight."""
    found = select(database.tables.lease.c.token).limit(1)
    return connection.execute(found).first() is not None


def of_boot(connection: Connection, database: Database, boot: str) -> dict[UUID, ProcessId]:
    """Return the leases in force that a process of this boot has started, with the process."""
    lease = database.tables.lease.c
    columns = lease.token, lease.boot, lease.pid, lease.process_start
    ours = lease.boot == boot, lease.expires_at > database.now()
    rows = connection.execute(select(*columns).where(*ours).order_by(lease.token))
    return {token: ProcessId(*process) for token, *process in rows}


def let_run_out(connection: Connection, database: Database, tokens: Collection[UUID]) -> None:
    """Let the leases of processes that have ended run out now, so that they take no slot.

    Nothing else is decided. The emails are judged as late as those of any lease that runs out, and
    a process that lives could still renew. Rows that others have locked are skipped.
    """
    lease = database.tables.lease
    locked = select(lease.c.token).where(lease.c.token.in_(tokens)).order_by(lease.c.token)
    free = connection.execute(locking(locked, lease, skip_locked=True)).scalars().all()
    over = update(lease).where(lease.c.token.in_(free), lease.c.expires_at > database.now())
    connection.execute(over.values(expires_at=database.now(), server=None))


def this(database: Database) -> ColumnElement[bool]:
    """Return the condition for `change`: it is the lease of `claim`, and nobody else has it locked.

    Where the database can, the statement itself locks the row first. That saves a round trip.
    """
    token = database.tables.lease.c.token
    if database.facts.returning:
        return token == _free(database).scalar_subquery()
    return token == bindparam("claim")


def change(
    connection: Connection,
    database: Database,
    statement: Update | Delete,
    token: UUID,
    **values: Any,
) -> bool:
    """Run a statement on `this` lease, unless somebody has it locked; return whether it did."""
    claim = {"claim": token}
    is_locked = database.facts.returning  # by the statement itself
    if not is_locked and connection.execute(database.built(_free), claim).first() is None:
        return False
    is_changed = connection.execute(statement, claim | values).rowcount > 0
    if is_changed:
        forget_locked(database, token)
    return is_changed


def lock(connection: Connection, database: Database, token: UUID) -> bool:
    """Lock the lease; return False if it is gone. Raises LockedElsewhere, without waiting."""
    claim = {"claim": token}
    is_free = connection.execute(database.built(_free), claim).first() is not None
    if not is_free:
        table = database.tables.lease
        there = select(table.c.token).where(table.c.token == token)
        if connection.execute(there).first() is not None:
            raise LockedElsewhere(table, [str(token)])
    forget_locked(database, token)
    return is_free


def forget_locked(database: Database, token: UUID) -> None:
    """Forget that the lease's row was locked: the next one who needs it asks for it patiently."""
    no_longer_avoided(database, database.tables.lease, str(token))


def _free(database: Database) -> Select[UUID]:
    """Return the statement that locks the lease of `claim`, and skips it if others have it."""
    ours = database.tables.lease.alias("ours")
    claimed = select(ours.c.token).where(ours.c.token == bindparam("claim"))
    return locking(claimed, ours, skip_locked=True)


def decline(database: Database, token: UUID) -> None:
    """Let a lease run out now if no task has started it: the next sweep gives its emails back.

    None of them is charged. If another task has started it, nothing is changed.
    """
    table = database.tables.lease
    over = update(table).where(this(database), table.c.started_at.is_(None))
    run_out = over.values(expires_at=database.now())
    database.run(lambda connection: change(connection, database, run_out, token))


def drop(database: Database, token: UUID) -> None:
    """Delete the lease of a batch whose results are all recorded."""

    def otherwise(connection: Connection) -> None:
        leave(connection, database, token, unsent=True)

    end_soon(database, token, otherwise)


def end_soon(
    database: Database, token: UUID, otherwise: Callable[[Connection], object] = lambda _: None
) -> bool:
    """Delete the lease if no email carries its token any more, and else do what is given.

    Returns False if its row stays locked. Then it runs out, and its batch is no probe any more.
    """

    def work(connection: Connection) -> None:
        if end_if_over(connection, database, token):
            return
        if lock(connection, database, token) and not end_if_over(connection, database, token):
            otherwise(connection)

    try:
        run_patiently(database, work)
    except LockedElsewhere:
        database.run(lambda connection: forget_prober(connection, database, token))
        return False
    return True


def end_if_over(connection: Connection, database: Database, token: UUID) -> bool:
    """Delete the lease if no email carries its token any more; return whether it was deleted."""
    return change(connection, database, database.built(_end_if_over), token)


def _end_if_over(database: Database) -> Delete:
    email = database.tables.email
    claimed = select(email.c.id).where(email.c.token == bindparam("claim"))
    return _end(database).where(~claimed.exists())


def end(connection: Connection, database: Database, token: UUID) -> bool:
    """Delete the lease; return whether it was deleted.

    This transaction has recorded or given back its last emails.
    """
    return change(connection, database, database.built(_end), token)


def _end(database: Database) -> Delete:
    return delete(database.tables.lease).where(this(database))


def leave(connection: Connection, database: Database, token: UUID, *, unsent: bool) -> bool:
    """Let the lease of a finished batch run out, because another transaction has locked its rows.

    It no longer takes a slot or a connection under a server's cap, and is no longer a probe. If all
    emails that are left are `unsent`, the lease counts as never started. A sweep then gives them
    back as soon as that transaction ends, and charges none of them. Returns whether it did so.
    """
    values: dict[str, Any] = {"expires_at": database.now(), "suspected_at": None, "server": None}
    if unsent:
        values |= {"started_at": None, "worker": None, "emails": 0}
    left = update(database.tables.lease).where(this(database)).values(**values)
    done = change(connection, database, left, token)
    forget_prober(connection, database, token)
    return done


def await_reply(database: Database, token: UUID) -> bool:
    """Note that its batch has ended, but for the reply to a content; return whether it was done.

    From now on it takes no slot. It is renewed as before, and its place under a server's cap stays.
    """
    waits = update(database.tables.lease).where(this(database)).values(awaits_reply=True)
    return database.run(lambda connection: change(connection, database, waits, token))


def has_slot(database: Database) -> ColumnElement[bool]:
    """Return the condition: the lease holds, and its batch takes a slot."""
    lease = database.tables.lease.c
    return (lease.expires_at > database.now()) & (lease.awaits_reply == false())


def put_off_rescue(connection: Connection, database: Database, token: UUID) -> None:
    """Have the rescue wait a whole lease from now on: its batch's results are known."""
    known = update(database.tables.lease).where(this(database)).values(suspected_at=None)
    change(connection, database, known, token)


def judge_later(database: Database, token: UUID) -> None:
    """Have a lease that the rescue could not judge wait for one term, as one with a faulty row."""
    later = update(database.tables.lease).where(this(database)).values(suspected_at=database.now())
    try:
        database.run(lambda connection: change(connection, database, later, token))
    except Exception as error:
        if not may_be_of_a_row(error):  # else its own row fails, too
            raise
