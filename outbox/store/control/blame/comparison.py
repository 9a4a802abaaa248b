"""Finds emails that tell most about a server: those unlike the emails that it halted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Any

from sqlalchemy import Select, UnaryExpression, select

from ....domain.delivery.blame import Common, Traits
from ....domain.delivery.refusal_fingerprint import fingerprint
from ....domain.delivery.transaction import Phase, Reply, Verdict
from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ...connection.database import Database
from ...connection.list_parts import among
from ...connection.row_locks import lock_ids
from ...records import traits_of
from ...schema.clock import utc
from ..pause import EVERYTHING, paused, scope_of
from .attempts import newest

OLDEST, NEWEST = 500, 100
"""How many due emails of one lane and priority are looked at, from both ends of the queue."""

LATELY = 3600.0
"""How many seconds back accepted emails are searched for, where the log's newest attempts reach."""

JUST_NOW = 120.0
"""Seconds for which an accepted email speaks against an email that was in trouble before."""

WAYS = 30
"""The most pairs of lane and priority that are searched. It bounds the cost of a rare search."""

_ANSWERED = (Verdict.SENT, Verdict.RETRY, Verdict.FAIL, Verdict.HALT)
"""With what was taken back, which the log has as a halt."""

_JUDGED = (Verdict.SENT, Verdict.RETRY, Verdict.FAIL)

OTHERS = 3
"""So many emails of other contents, which a server accepted while it refused one content, show that
the content is to blame. A quota that frees a place now and then lets one or two of them through."""

AT_ONCE = 100
"""How many rows are locked together to find one that is free, where the best one is locked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A due email with what matters for a comparison."""

    id: int
    lane: str
    priority: Priority
    traits: Traits
    content: int  # its id
    tag: str | None = None
    is_fresh: bool  # it was never delayed or tried, and never with a lost worker
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
        email.content_id, email.waited, email.attempts, email.crashes, email.expires_at, email.tag,
    )  # fmt: skip
    due = (email.lane == lane) & (email.priority == int(priority))
    return select(*columns).where(due, email.due_at <= database.now()).order_by(*order).limit(limit)


def _candidate(row: Any) -> Candidate:
    return Candidate(
        id=row.id,
        lane=row.lane,
        priority=Priority(row.priority),
        traits=traits_of(row),
        content=row.content_id,
        tag=row.tag,
        is_fresh=not (row.waited or row.attempts or row.crashes),
        expires=row.expires_at is not None,
    )


def outsider_waits(
    database: Database, ways: Iterable[LaneKey], is_outsider: Callable[[Traits], bool]
) -> bool:
    """Return whether an email waits that `is_outsider` says is unlike the halted ones.

    Neither paused nor locked emails count. They are not sent, so they would tell nothing, and
    meanwhile each other email would pay for the server's fault.
    """
    stopped = set(database.read(lambda connection: paused(connection, database)))
    going = [way for way in ways if stopped.isdisjoint({EVERYTHING, scope_of(way[1])})]
    outsiders = [one for one in candidates(database, going) if is_outsider(one.traits)]
    return first_free(database, outsiders) is not None


def just_taken(
    database: Database, server: str, is_outsider: Callable[[Traits], bool], *, seconds: float
) -> int | None:
    """Return the id of an email accepted in the last `seconds` that is unlike the halted ones."""
    taken = _taken(database, server, database.now(-seconds), within=seconds)
    return next((row.id for row in taken if is_outsider(traits_of(row))), None)


def taken_elsewhere(database: Database, server: str, host: str, seconds: float) -> bool:
    """Return whether a worker of another host has sent an email over this server lately."""
    found = newest(database, server).c
    ours = found.worker.startswith(f"{host}:", autoescape=True)
    statement = (
        select(found.finished_at)
        .where(found.verdict == Verdict.SENT, ~ours)
        .where(found.finished_at > database.now(-seconds))
        .where(found.finished_at < database.now(seconds))
        .limit(1)
    )
    return bool(_rows(database, statement))


def slowest_taken(database: Database, server: str) -> float:
    """Return the most seconds that a lately accepted email took on this server; 0.0 if none did."""
    taken = _taken(database, server, database.now(-LATELY), within=LATELY)
    took = (utc(row.finished_at) - utc(row.started_at) for row in taken)
    return max((one.total_seconds() for one in took), default=0.0)


def contents_taken(
    database: Database, server: str, refusal: str, contents: Collection[int]
) -> frozenset[int]:
    """Return which of these contents do not explain why this server refuses them.

    It has accepted them lately, and hardly another content since it began to refuse them like this.
    """
    attempt, email = database.tables.attempt.c, database.tables.email.c
    found = newest(database, server, attempt.finished_at > database.now(-LATELY))
    rows = _rows(
        database,
        select(found, email.content_id)
        .join_from(found, database.tables.email, email.id == found.c.email_id)
        .where(found.c.verdict.in_(_ANSWERED))
        .where(found.c.finished_at < database.now(LATELY))
        .order_by(found.c.id.desc()),
    )
    return frozenset(content for content in contents if _was_taken(rows, content, refusal))


def _was_taken(rows: Sequence[Any], content: int, refusal: str) -> bool:
    others = 0  # accepted later
    for row in rows:
        if row.verdict == Verdict.SENT:
            if row.content_id == content:
                return True
            others += 1
        elif others < OTHERS or row.content_id != content:
            continue
        elif refusal_in(Phase(row.phase), row) == refusal:
            return False
    return False


def refusal_in(phase: Phase, row: Any) -> str | None:
    """Return the fingerprint of the refusal that this row has, in this phase."""
    return fingerprint(phase, reply_in(row))


def reply_in(row: Any) -> Reply:
    """Return the reply that this row has."""
    return Reply(code=row.code, enhanced=row.enhanced, text=row.reply)


def taken_since(database: Database, server: str, moment: datetime) -> bool:
    """Return whether this server has accepted an email since that moment."""
    return bool(_taken(database, server, moment, within=JUST_NOW))


def doubts_in_a_row(database: Database, server: str) -> int:
    """Return how many emails the log has in doubt since it last has one that the server judged."""
    found = newest(database, server).c
    rows = _rows(database, select(found.email_id, found.verdict).order_by(found.id.desc()))
    lately = takewhile(lambda row: row.verdict not in _JUDGED, rows)
    return len({row.email_id for row in lately if row.verdict == Verdict.UNKNOWN})


def _taken(database: Database, server: str, since: Any, *, within: float) -> Sequence[Any]:
    """Return the log's entries of emails that this server accepted after `since`, newest first.

    Those from a future that is further away than `within` seconds were logged while the clock was
    ahead. They would seem to be new until the clock comes there again.
    """
    found, email = newest(database, server), database.tables.email.c
    statement = (
        select(
            email.id, email.sender, email.recipient, email.size,
            found.c.started_at, found.c.finished_at,
        )
        .join_from(found, database.tables.email, email.id == found.c.email_id)
        .where(found.c.verdict == Verdict.SENT)
        .where(found.c.finished_at > since, found.c.finished_at < database.now(within))
        .order_by(found.c.id.desc())
    )  # fmt: skip
    return _rows(database, statement)


def ranked_probes(
    found: Iterable[Candidate],
    suspect: Traits | None,
    suspect_id: int | None,
    *,
    suspect_content: int | None,
    usable_elsewhere: Collection[str],
    random: Callable[[], float],
) -> list[Candidate]:
    """Return the emails that may be risked, the likeliest to pass first, equals in random order.

    The last suspect is the last of all. Those of its content come behind: a server may refuse the
    rest of a newsletter, and each of its emails would be tried before any other. In the lanes
    `usable_elsewhere` another server would take an email at once: no urgent or expiring email of
    these is risked.
    """
    common = Common.of([suspect]) if suspect is not None else None

    def unlikelihood(one: Candidate) -> tuple[bool, bool, bool, bool, int, int, float]:
        unlike = common.lacked_by(one.traits) if common is not None else 0
        is_alike, is_old = common is not None and not unlike, not one.is_fresh
        is_same = one.content == suspect_content
        return one.id == suspect_id, is_alike, is_old, is_same, -unlike, -one.priority, random()

    allowed = [
        one
        for one in found
        if one.lane not in usable_elsewhere or not (one.expires or one.priority is Priority.URGENT)
    ]
    return sorted(allowed, key=unlikelihood)


def content_of(database: Database, email_id: int | None) -> int | None:
    """Return the id of this email's content; None where there is no such email."""
    email = database.tables.email.c
    statement = select(email.content_id).where(email.id == email_id)
    return database.read(lambda connection: connection.scalar(statement))


def first_free(database: Database, ranked: Sequence[Candidate]) -> Candidate | None:
    """Return the first of these emails whose row is free; None if all are locked.

    Mostly it is the very first. The others are locked only where another transaction has locked
    the first.
    """
    if not ranked or database.facts.one_writer:  # there nobody locks one without locking all
        return next(iter(ranked), None)
    rest = range(1, len(ranked), AT_ONCE)
    for some in (ranked[:1], *(ranked[start : start + AT_ONCE] for start in rest)):
        which = among(database, [one.id for one in some])
        free = database.run(partial(lock_ids, database=database, which=which))
        for one in some:
            if one.id in free:
                return one
    return None
