"""Leases that ran out: a sweep notes when it first saw that, and a rescue judges them later."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from ..connection.database import Database
from ..connection.list_parts import parts
from ..connection.row_locks import locking
from .lease import is_not_noted


def note_lapsed(database: Database) -> None:
    """Note when leases were first seen to have run out. Skip leases whose rows are locked.

    A host that vanished within a renewal keeps its row locked until the database notices, which may
    take hours. No sweep may wait for it. A host that vanishes here should not keep the leases of
    living workers locked, either. So where the database can, this is one statement that commits by
    itself.
    """
    lease = database.tables.lease
    found = (
        select(lease.c.token)
        .where(
            lease.c.expires_at <= database.now(),
            lease.c.started_at.is_not(None),
            is_not_noted(database),
        )
        .order_by(lease.c.token)
    )
    found = locking(found, lease, skip_locked=True)
    noted = {"suspected_at": database.now()}

    def work(connection: Connection) -> None:
        for tokens in parts(connection.execute(found).scalars().all()):
            connection.execute(update(lease).where(lease.c.token.in_(tokens)).values(**noted))

    if database.facts.returning:
        these = update(lease).where(lease.c.token.in_(found.correlate(None))).values(**noted)
        database.run_each(lambda connection: connection.execute(these))
    else:
        database.run(work)


def rescuable(database: Database, term: float) -> Sequence[UUID]:
    """Return the tokens of the leases that are to be judged, in their order."""
    lease = database.tables.lease
    statement = select(lease.c.token).where(is_rescuable(database, term)).order_by(lease.c.token)
    return database.read(lambda connection: connection.execute(statement).scalars().all())


def is_rescuable(database: Database, term: float) -> ColumnElement[bool]:
    """Return the condition: the lease ran out, and its worker had `term` seconds more to renew.

    One that never started has no worker. It is put off only if it had a row that alone fails.
    """
    lease = database.tables.lease
    return and_(
        lease.c.expires_at <= database.now(),
        or_(
            and_(lease.c.started_at.is_(None), is_not_noted(database)),
            lease.c.suspected_at <= database.now(-term),
        ),
    )
