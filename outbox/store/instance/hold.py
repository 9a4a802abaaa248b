"""Holds what waits in a restored outbox, and releases it.

A held email is pending, and due in the year 9000. So it stands at the end of the index of due
emails: a claim never reads it, however many are held. It can be withdrawn, and it can expire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, case, func, select, update

from ...domain.config.settings import Settings
from ...domain.delivery.status import Status
from ...domain.priority import Priority
from ..bounded_waits import run_bounded
from ..connection.database import Database
from ..connection.list_parts import among
from ..due_times import HELD, first_due, is_held
from ..queries.id_scan import Scan, scan
from ..schema.clock import utc
from ..transitions.rescue import rescue


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldEmails:
    """The held emails of one tag and priority."""

    tag: str | None
    priority: Priority
    emails: int
    scheduled: int  # how many of them have a `send_at` that is yet to come
    oldest: datetime  # when the first of them was enqueued


def end_leases(database: Database, settings: Settings, *, random: Callable[[], float]) -> None:
    """End every lease, and judge its emails as those of a worker that was lost.

    Whatever was `sending` came into doubt. The workers that had these leases belong to the
    original, or to a time before the restore.
    """
    lease = database.tables.lease
    long_ago = database.now(-2 * settings.lease)
    ended = update(lease).values(expires_at=long_ago, suspected_at=long_ago)
    run_bounded(database, lambda connection: connection.execute(ended))
    rescue(database, settings, random=random)


def leased(connection: Connection, database: Database) -> int:
    """Return how many emails a lease still has; another transaction has locked their rows."""
    token = database.tables.email.c.token
    statement = select(func.count()).where(token.is_not(None))
    return connection.execute(statement).scalar_one()


def hold(connection: Connection, database: Database, ids: Sequence[int]) -> int:
    """Hold those of these emails that wait; return how many. The caller has locked their rows."""
    email = database.tables.email
    waits = among(database, ids) & (email.c.status == Status.PENDING)
    return connection.execute(update(email).where(waits).values(due_at=HELD)).rowcount


def release(connection: Connection, database: Database, ids: Sequence[int]) -> int:
    """Release those of these emails that are held: they are due when they first were."""
    email = database.tables.email
    held = among(database, ids) & is_held(email)
    return connection.execute(update(email).where(held).values(due_at=first_due(email))).rowcount


def scan_waiting(database: Database) -> Scan:
    """Return a scan for the emails that wait and are not held yet."""
    email = database.tables.email
    return scan(database, (email.c.status == Status.PENDING) & (email.c.due_at < HELD))


def scan_held(
    database: Database,
    *,
    tag: str | None = None,
    priority: Priority | None = None,
    scheduled: bool = False,
) -> Scan:
    """Return a scan for the held emails: all, or those that fulfil each condition given."""
    email = database.tables.email
    which = is_held(email)
    if priority is not None:
        which &= email.c.priority == int(priority)
    if scheduled:
        which &= email.c.send_at > database.now()
    tagged: list[ColumnElement[bool]] = [] if tag is None else [email.c.tag == tag]
    return scan(database, which, *tagged)


def held(connection: Connection, database: Database) -> tuple[HeldEmails, ...]:
    """Return the held emails by tag and priority, the most first. It reads all that waits."""
    return grouped(connection, database, database.tables.email.c.due_at.is_not(None))


def grouped(
    connection: Connection, database: Database, among_these: ColumnElement[bool]
) -> tuple[HeldEmails, ...]:
    """Return those of these emails that are held, by tag and priority, the most first."""
    email = database.tables.email.c
    to_come = func.sum(case((email.send_at > database.now(), 1), else_=0))
    emails = func.count().label("emails")
    statement = (
        select(email.tag, email.priority, emails, to_come.label("scheduled"),
               func.min(email.created_at).label("oldest"))
        .where(among_these, is_held(database.tables.email))
        .group_by(email.tag, email.priority)
        .order_by(emails.desc(), email.tag, email.priority)
    )  # fmt: skip
    return tuple(
        HeldEmails(
            tag=found.tag,
            priority=Priority(found.priority),
            emails=found.emails,
            scheduled=int(found.scheduled),
            oldest=utc(found.oldest),
        )
        for found in connection.execute(statement)
    )
