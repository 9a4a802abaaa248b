"""Which waiting email tells most about a server: one unlike those that it halted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, UnaryExpression, select

from ...domain.delivery.blame import Common, Traits
from ...domain.delivery.transaction import Verdict
from ...domain.priority import Priority
from ...domain.scheduling.claim_plan import LaneKey
from ..connection.database import Database
from ..records import traits_of
from ..schema.clock import utc
from .pause import EVERYTHING, paused, scope_of

OLDEST, NEWEST = 500, 100
"""Due emails of one lane and priority that are looked at, from both ends of what waits."""

READ_BACK, LATELY = 1000, 3600.0
"""Attempts, of all servers, and seconds that are looked back for an email that was taken."""

JUST_NOW = 120.0
"""Seconds for which an email that was taken shows that its server is up."""

WAYS = 30
"""Lanes and priorities that are looked into. The look is rare, and its cost bounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A due email, as far as it matters for a comparison."""

    id: int
    lane: str
    priority: Priority
    traits: Traits
    is_fresh: bool  # nothing was held against it so far
    expires: bool


def candidates(database: Database, ways: Iterable[LaneKey]) -> list[Candidate]:
    """Return due emails of these lanes and priorities, the oldest and the newest of each."""
    email = database.tables.email.c
    looks = [
        _look(database, way, order, limit)
        for way in list(ways)[:WAYS]
        for order, limit in (
            ((email.due_at.asc(), email.id.asc()), OLDEST),
            ((email.due_at.desc(), email.id.desc()), NEWEST),
        )
    ]
    found: dict[int, Candidate] = {}
    for look in looks:
        found |= {row.id: _candidate(row) for row in _rows(database, look)}
    return list(found.values())


def _rows(database: Database, look: Select[*tuple[Any, ...]]) -> Sequence[Any]:
    return database.read(lambda connection: connection.execute(look).all())


def _look(
    database: Database, way: LaneKey, order: Sequence[UnaryExpression[Any]], limit: int
) -> Select[*tuple[Any, ...]]:
    email, (lane, priority) = database.tables.email.c, way
    columns = (
        email.id, email.lane, email.priority, email.sender, email.recipient, email.size,
        email.waited, email.attempts, email.crashes, email.expires_at,
    )  # fmt: skip
    due = (email.lane == lane) & (email.priority == int(priority))
    return select(*columns).where(due, email.due_at <= database.now()).order_by(*order).limit(limit)


def _candidate(row: Any) -> Candidate:
    return Candidate(
        id=row.id,
        lane=row.lane,
        priority=Priority(row.priority),
        traits=traits_of(row),
        is_fresh=not (row.waited or row.attempts or row.crashes),
        expires=row.expires_at is not None,
    )


def outsider_waits(
    database: Database, ways: Iterable[LaneKey], is_outsider: Callable[[Traits], bool]
) -> bool:
    """Return whether an email waits that `is_outsider` of all that was halted.

    What is paused does not count: nobody tries it, so it would never tell.
    """
    stopped = set(database.read(lambda connection: paused(connection, database)))
    going = [way for way in ways if stopped.isdisjoint({EVERYTHING, scope_of(way[1])})]
    return any(is_outsider(one.traits) for one in candidates(database, going))


def outsider_taken(database: Database, server: str, common: Common) -> bool:
    """Return whether this server has lately taken an email of another sender than the refused."""
    taken = _taken(database, server, database.now(-LATELY))
    return common.sender is not None and any(r.sender.lower() != common.sender for r in taken)


def just_taken(
    database: Database, server: str, is_outsider: Callable[[Traits], bool]
) -> int | None:
    """Return an email that `is_outsider` of all that was halted, and was taken just now."""
    taken = _taken(database, server, database.now(-JUST_NOW))
    return next((row.id for row in taken if is_outsider(traits_of(row))), None)


def slowest_taken(database: Database, server: str) -> float:
    """Return the seconds that an email took at most of those that this server has lately taken."""
    taken = _taken(database, server, database.now(-LATELY))
    took = (utc(row.finished_at) - utc(row.started_at) for row in taken)
    return max((one.total_seconds() for one in took), default=0.0)


def taken_since(database: Database, server: str, moment: datetime) -> bool:
    """Return whether this server has taken an email since that moment."""
    return bool(_taken(database, server, moment))


def _taken(database: Database, server: str, since: Any) -> Sequence[Any]:
    """Return what the log has of emails that this server took after a moment."""
    attempt, email = database.tables.attempt, database.tables.email.c
    newest = select(attempt).order_by(attempt.c.id.desc()).limit(READ_BACK).subquery("newest")
    statement = (
        select(
            email.id, email.sender, email.recipient, email.size,
            newest.c.started_at, newest.c.finished_at,
        )
        .join_from(newest, database.tables.email, email.id == newest.c.email_id)
        .where(newest.c.server == server, newest.c.verdict == Verdict.SENT)
        .where(newest.c.finished_at > since)
    )  # fmt: skip
    return _rows(database, statement)


def best_probe(
    found: Iterable[Candidate],
    suspect: Traits | None,
    suspect_id: int | None,
    *,
    usable_elsewhere: Collection[str],
    random: Callable[[], float],
) -> Candidate | None:
    """Return the email most likely to pass, or any one of several; None: none should be risked.

    Never the last suspect while there is another. Of the lanes `usable_elsewhere`, where another
    server would take the email at once, neither an urgent nor an expiring one.
    """
    common = Common.of([suspect]) if suspect is not None else None

    def unlikelihood(one: Candidate) -> tuple[bool, bool, bool, int, int, float]:
        unlike = common.lacked_by(one.traits) if common is not None else 0
        is_alike = common is not None and not unlike
        return one.id == suspect_id, is_alike, not one.is_fresh, -unlike, -one.priority, random()

    allowed = [
        one
        for one in found
        if one.lane not in usable_elsewhere or not (one.expires or one.priority is Priority.URGENT)
    ]
    return min(allowed, key=unlikelihood, default=None)
