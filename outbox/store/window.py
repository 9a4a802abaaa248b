"""claimed → sending: the send window. Only mails in an open window can ever be in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, and_, or_, select, update

from ..domain.lifecycle import LEASED, Status
from ..domain.verdict import Verdict
from . import lease, record, release, window_postgresql
from .claim import RETURNING
from .counter import IN_DOUBT, bump
from .database import Database
from .rows import Entry

LOST = "lease_lost"
"""The counter of results and windows that came after their lease was lost."""


def advance(
    database: Database,
    token: UUID,
    results: Sequence[Entry],
    following: Sequence[int],
    *,
    worker: str,
) -> frozenset[int]:
    """Record the last window and open the next in one transaction; return the opened ids.

    An id that is missing was withdrawn, has expired, or was lost with its lease: it must not be
    sent.
    """
    if database.dialect == "postgresql" and not any(map(_is_rare, results)):
        opened, lost = window_postgresql.advance(database, token, results, following, worker=worker)
        if lost:
            late = [entry for entry in results if entry.email_id in lost]
            advance_in_steps(database, token, late, [], worker=worker)
        return opened
    return advance_in_steps(database, token, results, following, worker=worker)


def advance_in_steps(
    database: Database,
    token: UUID,
    results: Sequence[Entry],
    following: Sequence[int],
    *,
    worker: str,
) -> frozenset[int]:
    """Do what `advance` does in a transaction of several statements, on any database."""

    def work(connection: Connection) -> frozenset[int]:
        lost = record.record(connection, database, token, results, worker=worker)
        opened = _open(connection, database, token, following)
        if lost:
            bump(connection, database, LOST, len(lost))
        doubted = [e for e in results if e.verdict is Verdict.UNKNOWN and e.email_id not in lost]
        if doubted:
            bump(connection, database, IN_DOUBT, len(doubted))
        return opened

    return database.run(work)


def _is_rare(entry: Entry) -> bool:
    """Whether a result takes more than one row of the table."""
    return entry.several or entry.verdict is Verdict.UNKNOWN


def finish(
    database: Database, token: UUID, results: Sequence[Entry], *, worker: str
) -> frozenset[int]:
    """Record the last window, give back what was not sent, and end the lease.

    Every mail that was sent is in `results` or was recorded before: what still carries the token
    is known to be unsent.

    Returns the ids whose lease was lost.
    """

    def work(connection: Connection) -> frozenset[int]:
        lost = record.record(connection, database, token, results, worker=worker)
        release.give_back(connection, database, token)
        lease.end(connection, database, token)
        if lost:
            bump(connection, database, LOST, len(lost))
        return lost

    return database.run(work)


def _open(
    connection: Connection, database: Database, token: UUID, ids: Sequence[int]
) -> frozenset[int]:
    if not ids:
        return frozenset()
    email = database.tables.email
    ours = and_(
        email.c.token == token,
        # `sending` too: a commit whose reply was lost is made again, and nothing was sent since.
        email.c.status.in_(sorted(LEASED)),
        email.c.id.in_(sorted(ids)),
        or_(email.c.expires_at.is_(None), email.c.expires_at > database.now()),
    )
    statement = update(email).where(ours).values(status=Status.SENDING)
    if database.dialect in RETURNING:
        return frozenset(connection.execute(statement.returning(email.c.id)).scalars())
    held = select(email.c.id).where(ours).order_by(email.c.id).with_for_update()
    opened = frozenset(connection.execute(held).scalars())
    connection.execute(
        update(email)
        .where(email.c.token == token, email.c.id.in_(sorted(opened)))
        .values(status=Status.SENDING)
    )
    return opened
