"""pending → claimed on PostgreSQL: one statement selects and claims emails, from a mark on.

Where a sweep wants one batch, the same statement inserts its lease: most emails come one by one.

PostgreSQL leaves an index entry behind for each claimed email. So a claim starts at the first email
that its sweep has just seen; see `low_water_mark`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    Update,
    any_,
    bindparam,
    func,
    insert,
    literal,
    select,
    true,
    tuple_,
    update,
)

from ...domain.delivery.outcome import ALONE_FROM
from ...domain.delivery.status import Status
from ...domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ..connection.database import Database
from ..due_emails import claimed, due_statement, most_alone, taken
from ..records import Mark
from ..schema.clock import clock
from ..schema.tables import Tables

_EVER = true()


def claim_due(
    connection: Connection,
    database: Database,
    request: ClaimRequest,
    token: UUID,
    since: Mark | None,
) -> Sequence[Row[int, int]]:
    """Claim one batch of this request under the token; return each email's id and crashes."""
    statement = database.built(_statement, replace(request, batches=1), since is not None)
    marks = {(request.lane, request.priority): since} if since else {}
    values = {"claim": token, "alone": most_alone(request)} | mark_parameters(marks)
    return connection.execute(statement, values).all()


def _statement(database: Database, request: ClaimRequest, is_marked: bool) -> Update:
    tables = database.tables
    token: BindParameter[UUID] = bindparam("claim")
    alone: BindParameter[int] = bindparam("alone")
    since = beyond(tables.email, (request.lane, request.priority)) if is_marked else _EVER
    return claim_statement(tables, request, token, database.now(), since, alone=alone)


def claim_statement(
    tables: Tables,
    request: ClaimRequest,
    token: UUID | BindParameter[UUID],
    now: clock,
    since: ColumnElement[bool] = _EVER,
    *,
    alone: int | BindParameter[int] = 1,
) -> Update:
    """Return the statement that selects and claims.

    The CTE is materialised: PostgreSQL may run a sub-select again for each row, and would then
    claim more than the limit.
    """
    email = tables.email
    due = due_statement(tables, request, now).where(since)
    picked = taken(due.cte("due").prefix_with("MATERIALIZED", dialect="postgresql"), alone)
    # As an array, the ids are looked up by the key. A join may read all that is due.
    chosen = email.c.id == any_(func.array(picked.scalar_subquery()))
    return (
        update(email)
        .where(chosen, email.c.status == Status.PENDING)
        .values(claimed(token))
        .returning(email.c.id, email.c.crashes)
    )


def claim_whole(
    database: Database,
    request: ClaimRequest,
    token: UUID,
    since: Mark | None,
    lease_seconds: float,
) -> int | None:
    """Claim one batch of this request under the token, with its lease; return how many emails.

    It is one statement, so nobody begins and commits a transaction. Return None if an email that
    goes alone is among those due: then nothing was claimed.
    """
    one = replace(request, batches=1)
    statement = database.built(_whole_statement, one, since is not None, lease_seconds)
    marks = {(request.lane, request.priority): since} if since else {}
    values = {"claim": token} | mark_parameters(marks)
    found = database.read(lambda connection: connection.execute(statement, values).one())
    return None if found.is_any_lone else int(found.emails)


def _whole_statement(
    database: Database, request: ClaimRequest, is_marked: bool, lease_seconds: float
) -> Select[int, bool]:
    tables, now = database.tables, database.now()
    email, lease = tables.email, tables.lease.c
    token: BindParameter[UUID] = bindparam("claim", type_=lease.token.type)
    since = beyond(email, (request.lane, request.priority)) if is_marked else _EVER
    found = due_statement(tables, request, now).where(since)
    due = found.cte("due").prefix_with("MATERIALIZED", dialect="postgresql")
    is_any_lone = select(due.c.id).where(due.c.crashes >= ALONE_FROM).exists()
    chosen = email.c.id == any_(func.array(select(due.c.id).scalar_subquery()))
    taken_now = (
        update(email)
        .where(chosen, ~is_any_lone, email.c.status == Status.PENDING)
        .values(claimed(token))
        .returning(email.c.id)
        .cte("taken_now")
    )
    values = {
        lease.token: token,
        lease.priority: literal(int(request.priority), lease.priority.type),
        lease.lane: literal(request.lane, lease.lane.type),
        lease.emails: func.count(),
        lease.claimed_at: now,
        lease.expires_at: database.now(lease_seconds),
    }
    counted = select(*values.values()).select_from(taken_now).having(func.count() > 0)
    leased = insert(tables.lease).from_select(list(values), counted, include_defaults=False)
    emails = select(func.count()).select_from(taken_now).scalar_subquery()
    told = select(emails.label("emails"), is_any_lone.label("is_any_lone"))
    return told.add_cte(leased.cte("leased"))


def beyond(email: Table, way: LaneKey) -> ColumnElement[bool]:
    """Return the condition: at this mark or after it, which is one range of the index."""
    moment, key = _names(way)
    mark = tuple_(
        bindparam(moment, type_=email.c.due_at.type), bindparam(key, type_=email.c.id.type)
    )
    return tuple_(email.c.due_at, email.c.id) >= mark


def mark_parameters(marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return the parameters of `beyond` for each lane and priority."""
    found: dict[str, Any] = {}
    for way, mark in marks.items():
        found |= zip(_names(way), (mark.due_at, mark.id), strict=True)
    return found


def _names(way: LaneKey) -> tuple[str, str]:
    lane, priority = way
    name = f"since_{lane.encode().hex()}_{priority.value}"
    return f"{name}_due", f"{name}_id"
