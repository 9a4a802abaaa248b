"""Finds emails that were with lost workers again and again: each of them may be what ends them.

Any email is with a lost worker once, for whatever reason. From the second time on it is told. No
index has the crashes. So a rescue leaves a mark that names the email, and the leases tell of one
whose worker is silent now, before any rescue has judged it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import CompoundSelect, Connection, Select, and_, case, or_, select, union_all

from ...domain.delivery.status import LEASED, Status
from ..connection.database import Database
from ..connection.list_parts import parts
from ..control.counter import CRASHING, make, put_if_free
from .sweep.tagged_rows import Findings, finding, now

AGAIN = 2
"""Lost workers from which on an email is told of."""

SILENT = 0.4
"""The part of a lease's term. A renewal is due when two thirds are left; below this its worker is
most likely lost."""

TOLD = 86_400.0
"""Seconds for which a failed one is told of."""

MOST = 3
"""The most emails that are told of: the others may only have been beside them."""

_OPEN = (Status.PENDING, *sorted(LEASED))


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashingEmail:
    """An email that was with at least two lost workers."""

    id: int
    status: Status
    workers: int  # that were lost
    is_in_doubt: bool


def prepare_mark(database: Database, leases: Sequence[UUID]) -> None:
    """Make the mark's row, if one of these leases has an email that may come to it.

    It is committed before the rescue: others would wait for the row that an open one inserts.
    """
    email = database.tables.email.c
    for tokens in parts(leases):
        lost = select(email.id).where(email.token.in_(tokens), email.crashes >= AGAIN - 1).limit(1)
        if database.read(lambda connection: connection.execute(lost).first()) is not None:  # noqa: B023
            make(database, CRASHING)


def note_crashing(connection: Connection, database: Database, *ours: Any) -> None:
    """Leave the mark, if one of these emails has just come to it. Their rows are locked.

    Where another transaction has locked the mark, it is left out: the rescue does not wait.
    """
    email = database.tables.email.c
    worst = case((email.status == Status.SENDING, 0), else_=1)
    statement = select(email.id, email.crashes).where(*ours, email.crashes >= AGAIN)
    order = email.crashes.desc(), worst, email.id
    found = connection.execute(statement.order_by(*order).limit(1)).first()
    if found is None:
        return
    marked = connection.execute(_marked(database).where(email.status.in_(_OPEN))).first()
    if marked is None or marked.crashes <= found.crashes:
        put_if_free(connection, database, CRASHING, found.id)


def crashing(
    connection: Connection, database: Database, *, lease_seconds: float, max_crashes: int
) -> tuple[CrashingEmail, ...]:
    """Return the emails that were with lost workers again, as far as they are known; at most MOST.

    One that has ended is among them while it is unknown, and if it failed of it within a day.
    """
    statement = database.built(_statement, lease_seconds, max_crashes)
    return read(Findings(connection, statement, {}))


def _statement(
    database: Database, term: float, max_crashes: int
) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(now(database), *terms(database, term, max_crashes))


def terms(
    database: Database, lease_seconds: float, max_crashes: int
) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield the statements for what `read` takes."""
    email = database.tables.email.c
    failed = and_(
        email.status == Status.FAILED,
        email.crashes >= max_crashes,
        email.attempts < email.crashes,  # it was in doubt, and a person has settled it
        email.finished_at > database.now(-TOLD),
    )
    told = or_(email.status.in_([*_OPEN, Status.UNKNOWN]), failed)
    for what, some in (
        ("marked", _marked(database).where(told)),
        ("silent", _silent(database, lease_seconds)),
    ):
        one = some.subquery(what).c
        yield finding(
            what, one.status, priority=one.unknown_count, number=one.id, emails=one.crashes
        )


def read(found: Findings) -> tuple[CrashingEmail, ...]:
    """Return the emails that these findings tell of, those of silent workers by their order."""
    emails = {row.number: _email(row, lost=row.emails) for row in found["marked"]}
    silent = [_email(row, lost=row.emails + 1) for row in found["silent"]]
    silent.sort(key=lambda one: (-one.workers, one.status is not Status.SENDING, one.id))
    emails |= {one.id: one for one in silent}
    return tuple(emails.values())[:MOST]


def _marked(database: Database) -> Select[Any]:
    email, counter = database.tables.email, database.tables.counter.c
    columns = email.c.id, email.c.status, email.c.crashes, email.c.unknown_count
    mark = select(counter.value).where(counter.name == CRASHING).scalar_subquery()
    return select(*columns).where(email.c.id == mark, email.c.crashes >= AGAIN)


def _silent(database: Database, term: float) -> Select[Any]:
    """Return the statement for the emails of silent workers that lost others before."""
    email, lease = database.tables.email.c, database.tables.lease.c
    is_silent = lease.started_at.is_not(None) & (lease.expires_at < database.now(SILENT * term))
    worst = case((email.status == Status.SENDING, 0), else_=1)
    return (
        select(email.id, email.status, email.crashes, email.unknown_count)
        .where(is_silent, email.token == lease.token, email.crashes >= AGAIN - 1)
        .order_by(email.crashes.desc(), worst, email.id)
        .limit(MOST)
    )


def _email(row: Any, *, lost: int) -> CrashingEmail:
    status = Status(row.name)
    in_doubt = row.priority > 0 or status is Status.SENDING
    return CrashingEmail(id=row.number, status=status, workers=lost, is_in_doubt=in_doubt)
