"""What the others give way to: whether urgent mail waits, and whether it stirs at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, exists, false, func, literal, or_, select, true

from ..domain.claims import AHEAD
from ..domain.lanes import Lanes, route_of
from ..domain.priority import Priority
from ..domain.routing import Routes
from ..domain.servers import ServerSettings
from .database import Database
from .survey import waiting

_STUCK = 0.3
"""Seconds in which an urgent batch is started wherever a process is free."""

_LEFT = 0.03
"""Seconds in which urgent mail is claimed wherever a process is free to sweep."""


def urgent_stirs(database: Database, lanes: Collection[str]) -> bool:
    """Return whether urgent mail of these lanes is due, or in flight."""
    return _is_so(database, database.built(_stirs, tuple(lanes)))


def _stirs(database: Database, lanes: tuple[str, ...]) -> Select[int]:
    email, lease, now = database.tables.email.c, database.tables.lease.c, database.now()
    urgent = int(Priority.URGENT)
    flight = exists().where(lease.lane.in_(lanes), lease.priority == urgent, lease.expires_at > now)
    found = select(email.due_at).where(email.priority == urgent, email.due_at <= now)
    found = found.order_by(email.due_at, email.id)
    due = [_any_of(found.where(email.lane == lane)) for lane in lanes]
    return select(literal(1)).where(or_(flight, *due))


def urgent_waits(
    database: Database, lanes: Lanes, *, slots: int, routes: Routes | None = None
) -> bool:
    """Return whether urgent mail could go and no slot is free for it, nor a process to claim it.

    It could not where `routes` give it only servers that are halted, or whose rates are used up.

    An urgent batch whose task has not started yet waits too. It holds no slot here: once one batch
    has given way to it, the others need not. But where it stays so, some worker has fetched the
    task while all of its own processes are busy: then every batch gives way. So it is where nobody
    claims urgent mail though a slot is free: every process is busy, and none is left to sweep.
    """
    return _is_so(database, database.built(_waits, lanes, lanes.names, slots, routes))


def _waits(
    database: Database, lanes: Lanes, _: tuple[str, ...], slots: int, routes: Routes | None
) -> Select[int]:
    lease, now = database.tables.lease.c, database.now()
    unstarted = (lease.priority == int(Priority.URGENT)) & lease.started_at.is_(None)
    holding = select(func.count()).where(lease.expires_at > now, ~unstarted).scalar_subquery()
    published = exists().where(unstarted, lease.expires_at > now)
    stuck = exists().where(
        unstarted, lease.expires_at > now, lease.claimed_at < database.now(-_STUCK)
    )
    due, left = (_may_go(database, lanes, routes, since) for since in (0.0, _LEFT))
    return select(literal(1)).where(stuck | left | ((holding >= slots) & (published | due)))


def _may_go(
    database: Database, lanes: Lanes, routes: Routes | None, since: float
) -> ColumnElement[bool]:
    """Urgent mail that was due `since` seconds ago is not claimed, and a server would take it."""
    return or_(
        *(
            _any_of(waiting(database, lanes, (lane, Priority.URGENT), since))
            & _any_usable(database, routes.servers_of(route_of(lane)) if routes else ())
            for lane in lanes.names
        )
    )


def _any_of(mails: Select[datetime]) -> ColumnElement[bool]:
    """Whether there is one of these mails, which are in the order of the index of due mails.

    Not by EXISTS: it drops the order, and a planner that does not know the lane and the priority
    takes half of the table for due urgent mail, and goes through all of it for the first one.
    """
    return mails.limit(1).scalar_subquery().is_not(None)


def _any_usable(database: Database, servers: Sequence[ServerSettings]) -> ColumnElement[bool]:
    breaker, bucket = database.tables.breaker.c, database.tables.bucket.c
    ahead = database.now(AHEAD)
    halted = [exists().where(breaker.server == server.name) for server in servers]
    closed = [
        exists().where(bucket.name == server.bucket, bucket.tat > ahead) if server.rate else false()
        for server in servers
    ]
    return or_(*(~(h | c) for h, c in zip(halted, closed, strict=True))) if servers else true()


def _is_so(database: Database, statement: Select[int]) -> bool:
    return database.read(lambda connection: connection.execute(statement).first()) is not None
