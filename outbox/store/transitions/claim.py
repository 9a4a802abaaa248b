"""pending → claimed: a batch gets a unique token, and no other claim matches its emails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from uuid import UUID, uuid4

from sqlalchemy import (
    BindParameter,
    Connection,
    Insert,
    Row,
    Update,
    bindparam,
    insert,
    select,
    update,
)

from ...domain.delivery.outcome import ALONE_FROM
from ...domain.delivery.status import Status
from ...domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ..backend import backend_of
from ..connection.database import Database
from ..connection.error_codes import describe, may_be_of_a_row
from ..connection.list_parts import among
from ..connection.row_locks import lock_ids
from ..control.passed_over import pass_over, passed_over
from ..due_emails import claimed, due_statement, most_alone, taken
from ..records import Claim, Mark
from ..schema.clock import clock
from ..schema.tables import Tables
from .claim_apart import claim_each, take_apart
from .claim_whole import claim_whole

_log = logging.getLogger("outbox")

Take = Callable[
    [Connection, Database, ClaimRequest, UUID], Sequence[tuple[int, int] | Row[int, int]]
]
"""Claims one batch under a token; returns each email's id and crashes."""


def claim(
    database: Database,
    requests: Sequence[ClaimRequest],
    *,
    lease_seconds: float,
    since: Mapping[LaneKey, Mark] = MappingProxyType({}),
) -> list[Claim]:
    """Claim all that a sweep has decided on, in one transaction; return the claims in order.

    `since` has the marks at which the sweep saw each lane's first due email. Only the claim on
    PostgreSQL uses them: emails that were due before their mark wait there for a later sweep.

    An email whose row alone fails is passed over for a while, and keeps no other one. Then each
    request has a transaction of its own, because all of its emails may be such ones.
    """

    def work(
        connection: Connection, some: Sequence[ClaimRequest], *, apart: bool = True
    ) -> list[Claim]:
        claims: list[Claim] = []
        for request in some:
            mark = since.get((request.lane, request.priority))
            take = take_apart if apart else partial(_take, since=mark)
            claims += _batches(connection, database, request, take)
        _lease(connection, database, claims, lease_seconds)
        return claims

    if requests and not passed_over(database):
        try:
            whole = claim_whole(database, requests, lease_seconds=lease_seconds, since=since)
            if whole is not None:
                return whole
            return database.run(partial(work, some=requests, apart=False))
        except Exception as error:
            if not may_be_of_a_row(error):
                raise
    return claim_each(database, requests, work)


def claim_probe(
    database: Database, way: LaneKey, ids: Sequence[int], *, lease_seconds: float
) -> Claim | None:
    """Claim these emails as a probe for `lease_seconds`; without any the probe is a mere session.

    Returns None if none of them is due any longer, because another claim was faster; or if other
    transactions have locked their rows, for which no sweep waits; or if the rows alone fail. In the
    last case the next probe is another email.
    """
    (lane, priority), token = way, uuid4()

    def work(connection: Connection, some: Sequence[int]) -> Claim | None:
        emails = 0
        if some:
            free = sorted(lock_ids(connection, database, among(database, some)))
            guarded = guarded_statement(database.tables, free, token)
            emails = connection.execute(guarded).rowcount if free else 0
            if not emails:
                return None
        made = Claim(token=token, priority=priority, emails=emails, lane=lane, is_probe=True)
        _lease(connection, database, [made], lease_seconds)
        return made

    for some in [ids, *([one] for one in ids[: len(ids) - 1])]:  # one by one where a row fails
        try:
            return database.run(partial(work, some=some))
        except Exception as error:
            if not some or not may_be_of_a_row(error):
                raise
            if len(some) == 1:
                _log.error("outbox: email %d could not be claimed (%s)", some[0], describe(error))
                pass_over(database, some)
    return None


def _batches(
    connection: Connection, database: Database, request: ClaimRequest, take: Take
) -> list[Claim]:
    """Claim the batches of one request; one email that goes alone may come on top of them.

    An email that is claimed alone counts as a batch, because it takes a slot. Otherwise, after a
    newsletter's workers were lost, one sweep would claim thousands that no process could start. The
    last batch is not given up for such an email: neither of the two has to wait for the other.

    If most of the emails that are due first go alone, those behind them fill the batch.
    """
    claims: list[Claim] = []
    left = request.batches
    while left > 0:
        request = replace(request, batches=left)
        batch, lone = _batch(connection, database, request, take)
        if lone and 2 * batch.emails < request.size:
            request = replace(request, passes_lone=True)
            batch = _filled(connection, database, batch, request, take)
        made = [batch, *lone] if batch.emails else lone
        if not made:  # other sweeps have claimed the rest
            break
        claims += made
        left -= len(made)
    return claims


def _batch(
    connection: Connection, database: Database, request: ClaimRequest, take: Take
) -> tuple[Claim, list[Claim]]:
    """Claim one batch, which may be empty, and the emails that go alone; return both."""
    token = uuid4()
    rows = take(connection, database, request, token)
    together = [email_id for email_id, crashes in rows if crashes < ALONE_FROM]
    alone = [email_id for email_id, crashes in rows if crashes >= ALONE_FROM]
    batch = Claim(token=token, priority=request.priority, emails=len(together), lane=request.lane)
    return batch, [_move(connection, database, batch, email_id) for email_id in alone]


def _filled(
    connection: Connection, database: Database, batch: Claim, request: ClaimRequest, take: Take
) -> Claim:
    """Add more emails to this batch, up to its size; return it."""
    rest = replace(request, size=request.size - batch.emails)
    more = take(connection, database, rest, batch.token)
    return replace(batch, emails=batch.emails + len(more))


def _take(
    connection: Connection,
    database: Database,
    request: ClaimRequest,
    token: UUID,
    *,
    since: Mark | None,
) -> Sequence[tuple[int, int] | Row[int, int]]:
    """Claim one batch; return each email's id and crashes. Each variant relies on the guard."""
    if (own := backend_of(database.dialect).claim_due) is not None:
        return own(connection, database, request, token, since)
    if database.facts.returning:
        statement = database.built(_statement, replace(request, batches=1))
        values = {"claim": token, "alone": most_alone(request)}
        return connection.execute(statement, values).all()
    return _take_in_steps(connection, database, request, token)


def _take_in_steps(
    connection: Connection, database: Database, request: ClaimRequest, token: UUID
) -> Sequence[tuple[int, int]]:
    tables = database.tables
    found = connection.execute(due_statement(tables, request, database.now())).all()
    lone = [row for row in found if row.crashes >= ALONE_FROM][: most_alone(request)]
    due = [(row.id, row.crashes) for row in found if row.crashes < ALONE_FROM or row in lone]
    if not due:
        return []
    ids = [email_id for email_id, _ in due]
    claimed_now = connection.execute(guarded_statement(tables, ids, token)).rowcount
    if claimed_now != len(ids):  # another sweep claimed some: read which emails got this token
        email = tables.email.c
        ours = select(email.id, email.crashes).where(email.id.in_(ids), email.token == token)
        return [(row.id, row.crashes) for row in connection.execute(ours)]
    return due


def _statement(database: Database, request: ClaimRequest) -> Update:
    token: BindParameter[UUID] = bindparam("claim")
    alone: BindParameter[int] = bindparam("alone")
    return returning_statement(database.tables, request, token, database.now(), alone=alone)


def returning_statement(
    tables: Tables,
    request: ClaimRequest,
    token: UUID | BindParameter[UUID],
    now: clock,
    *,
    alone: int | BindParameter[int] = 1,
) -> Update:
    """Return the statement that selects and claims, for databases with UPDATE … RETURNING."""
    email = tables.email
    ids = taken(due_statement(tables, request, now).cte("due", nesting=True), alone)
    return (
        update(email)
        .where(email.c.id.in_(ids), email.c.status == Status.PENDING)
        .values(claimed(token))
        .returning(email.c.id, email.c.crashes)
    )


def guarded_statement(tables: Tables, ids: list[int], token: UUID) -> Update:
    """Return the statement that claims those of these rows that are still pending.

    No email is claimed twice, because of this guard.
    """
    email = tables.email
    return (
        update(email)
        .where(email.c.id.in_(ids), email.c.status == Status.PENDING)
        .values(claimed(token))
    )


def _move(connection: Connection, database: Database, old: Claim, email_id: int) -> Claim:
    email, token = database.tables.email, uuid4()
    connection.execute(
        update(email).where(email.c.id == email_id, email.c.token == old.token).values(token=token)
    )
    return replace(old, token=token, emails=1)


def _lease(
    connection: Connection, database: Database, claims: list[Claim], lease_seconds: float
) -> None:
    if not claims:
        return
    statement = database.built(_leases, lease_seconds)
    rows = [
        {
            "token": made.token,
            "priority": int(made.priority),
            "lane": made.lane,
            "emails": made.emails,
        }
        for made in claims
    ]
    connection.execute(statement, rows)


def _leases(database: Database, lease_seconds: float) -> Insert:
    moments = {"claimed_at": database.now(), "expires_at": database.now(lease_seconds)}
    return insert(database.tables.lease).values(**moments)
