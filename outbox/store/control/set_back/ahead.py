"""Which rows of the control tables were written while the database's clock was ahead."""

from __future__ import annotations

from sqlalchemy import ColumnElement, exists, or_, select

from ...connection.database import Database

APART = 1.0
"""Seconds by which a moment that was noted as now may lie in the future before that counts. It
happens if another host takes over as the database."""

TERMS = 10.0
"""How many terms a lease may last from now on. A worker whose OUTBOX_LEASE is longer than that of
the process that sweeps, because not all were restarted yet, renews its lease before this time."""


def is_any_ahead(database: Database, term: float) -> ColumnElement[bool]:
    """Return the condition: there is something to correct. `term` is a lease's."""
    breaker, lease = database.tables.breaker.c, database.tables.lease.c
    breakers = exists(select(breaker.server).where(is_breaker_ahead(database)))
    return or_(breakers, exists(select(lease.token).where(is_lease_ahead(database, term))))


def is_breaker_ahead(database: Database) -> ColumnElement[bool]:
    """Return the condition: the breaker was opened, probed or noted in the future."""
    breaker, soon = database.tables.breaker.c, database.now(APART)
    return or_(breaker.opened_at > soon, breaker.seen_at > soon)


def is_lease_ahead(database: Database, term: float) -> ColumnElement[bool]:
    """Return the condition: the lease was taken, started or renewed in the future.

    No column says when it was renewed.
    """
    lease, soon = database.tables.lease.c, database.now(APART)
    renewed = lease.expires_at > database.now(TERMS * term)
    return or_(lease.claimed_at > soon, lease.started_at > soon, renewed)
