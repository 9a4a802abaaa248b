"""claimed → sending: the send window opens. An email can come to be in doubt only in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from sqlalchemy import Connection, and_, or_, update

from ...domain.delivery.status import LEASED, Status
from ...domain.delivery.transaction import Verdict
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import lock_ids, seen
from ..control import lease
from ..control.counter import UNKNOWN, bump
from ..records import Advanced, EmailResult, WindowChange, WriteResult
from . import record, release

LOST = "lease_lost"
"""The name of the counter of results that came after their lease was lost."""

Together = Callable[[WindowChange], Advanced]
"""Makes one task's change together with those of other tasks."""


def advance(
    database: Database,
    token: UUID,
    results: Sequence[EmailResult],
    following: Sequence[int],
    *,
    worker: str,
    together: Together | None = None,
) -> WriteResult:
    """Record the last window and open the next in one transaction; return what was done.

    An id that is not among the opened ones must not be sent. It was withdrawn, has expired, was
    lost with its lease, is locked by another transaction, or has a result among these. Pass results
    that are `locked` to the next call again. This function never waits for another transaction.

    Where one statement can do it, it is left to `together`, if that is given.
    """
    # If a row was locked when its window ended, its result comes again. To open the row in the same
    # write would send an email whose row says that it is not open: nobody would know of a doubt.
    closing = {entry.email_id for entry in results}
    following = [email_id for email_id in following if email_id not in closing]
    at_once = backend_of(database.dialect).advance
    if at_once is not None and not any(map(_is_rare, results)):
        change = WindowChange(token, tuple(results), tuple(following))
        opened, missing = together(change) if together else at_once(database, [change], worker)[0]
        written = frozenset(entry.email_id for entry in results) - missing
        done = WriteResult(opened=opened, written=written)
        if missing:
            rest = [entry for entry in results if entry.email_id in missing]
            late = advance_in_steps(database, token, rest, [], worker=worker)
            done = replace(late, opened=opened, written=late.written | written)
        wants = database.audience.wants  # mostly without `sent`, which nearly all are
        ended = (e for e in results if e.outcome.status in wants and e.email_id in written)
        database.tell(map(record.ending, ended))
        return done
    return advance_in_steps(database, token, results, following, worker=worker)


def advance_together(
    database: Database, changes: Sequence[WindowChange], *, worker: str
) -> list[Advanced]:
    """Make the changes of several tasks with one statement; return what was done for each.

    All are made or none. They are what `advance` leaves to its `together`, and no email may be in
    two of them.
    """
    at_once = backend_of(database.dialect).advance
    assert at_once is not None  # noqa: S101  (`advance` asks others in steps)
    return at_once(database, changes, worker)


def advance_in_steps(
    database: Database,
    token: UUID,
    results: Sequence[EmailResult],
    following: Sequence[int],
    *,
    worker: str,
) -> WriteResult:
    """Do what `advance` does, in several statements of one transaction, on any database."""

    def work(connection: Connection) -> WriteResult:
        done = record.record(connection, database, token, results, worker=worker)
        opened = _open(connection, database, token, following)
        _count(connection, database, results, done)
        return replace(done, opened=opened)

    return database.run(work)


def _count(
    connection: Connection, database: Database, results: Sequence[EmailResult], done: WriteResult
) -> None:
    lost = [entry for entry in results if entry.email_id in done.lost and not entry.is_sought]
    if lost:
        bump(connection, database, LOST, len(lost))
    written = done.written
    unknown = [e for e in results if e.verdict is Verdict.UNKNOWN and e.email_id in written]
    if unknown:
        bump(connection, database, UNKNOWN, len(unknown))


def _is_rare(entry: EmailResult) -> bool:
    """Whether a result needs more than its email's row and its log entry."""
    return entry.several or entry.redact or entry.verdict is Verdict.UNKNOWN


def finish(
    database: Database, token: UUID, results: Sequence[EmailResult], *, worker: str
) -> WriteResult:
    """Record the last window, give back what was not sent, and end the lease.

    Every sent email is in `results` or was recorded before. So other emails that still carry the
    token are known to be unsent. One whose result is lost was sent, perhaps: if it turns up now, it
    is left to the next call, or to the rescue. The lease stays if another transaction has locked a
    row. The rescue ends it then, or the next call if a result is `locked`. The lease stays, too, if
    its own row is locked: the result says so if emails are `left` with it.
    """

    leave = partial(lease.leave, database=database, token=token)

    def work(connection: Connection) -> tuple[WriteResult, bool]:
        done = record.record(connection, database, token, results, worker=worker)
        if release.give_back(connection, database, token, but=done.unwritten):
            is_free = lease.end(connection, database, token)
        else:
            is_free = leave(connection, unsent=not done.unwritten)
            done = replace(done, left=True)
        _count(connection, database, results, done)
        return done, is_free

    done, is_free = database.run(work)
    otherwise = partial(leave, unsent=not done.unwritten)
    if is_free or lease.end_soon(database, token, otherwise):
        return replace(done, left=False)
    return done


def record_last(
    database: Database, token: UUID, results: Sequence[EmailResult], *, worker: str
) -> WriteResult:
    """Record results of a batch that an error has ended, and give nothing back.

    Another email of it may have left without a result. The lease ends with the batch's last email.
    As long as a result is `locked`, each call puts the rescue off, which would take it for unknown.
    """

    def work(connection: Connection) -> tuple[WriteResult, bool]:
        done = record.record(connection, database, token, results, worker=worker)
        if done.locked:
            lease.put_off_rescue(connection, database, token)
        is_over = lease.end_if_over(connection, database, token)
        _count(connection, database, results, done)
        return done, is_over

    done, is_over = database.run(work)
    if not (is_over or done.locked):
        lease.end_soon(database, token)
    return done


def abandon(database: Database, token: UUID) -> None:
    """Give back the emails that wait for a window, after an error has ended their batch.

    An email of the open window without a result may have left. It keeps the lease, and the rescue
    judges it. If there is none, the lease ends.
    """

    def work(connection: Connection) -> bool:
        release.give_back_claimed(connection, database, token)
        return lease.end_if_over(connection, database, token)

    if not database.run(work):
        lease.end_soon(database, token)


def _open(
    connection: Connection, database: Database, token: UUID, ids: Sequence[int]
) -> frozenset[int]:
    if not ids:
        return frozenset()
    email = database.tables.email
    ours = and_(
        email.c.token == token,
        # `sending` too: a commit whose reply was lost is repeated, and nothing was sent since.
        email.c.status.in_(sorted(LEASED)),
        or_(email.c.expires_at.is_(None), email.c.expires_at > database.now()),
    )
    opening = update(email).values(status=Status.SENDING)
    if database.facts.one_writer:
        found = opening.where(ours, among(database, ids)).returning(email.c.id)
        return frozenset(connection.execute(found).scalars())
    opened = lock_ids(connection, database, ours & among(database, ids))
    mine = email.c.token == token
    if connection.execute(opening.where(mine, among(database, opened))).rowcount == len(opened):
        return opened
    # This database has not kept the rows locked: only those that the write has found are open.
    return seen(
        connection, database, mine & (email.c.status == Status.SENDING) & among(database, opened)
    )
