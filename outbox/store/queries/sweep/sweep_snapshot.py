"""Finds what a sweep must do in one statement, and in a second one if emails wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    case,
    func,
    or_,
    select,
    union_all,
)

from ....domain.config.servers import ServerSettings
from ....domain.jobs.order import JobState
from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import DueEmails, InFlight, LaneKey
from ....domain.scheduling.lanes import Lanes
from ....domain.scheduling.token_bucket import SLACK, max_debt
from ...connection.database import Database
from ...control.lease import has_slot, is_not_noted
from ...control.set_back.ahead import is_any_ahead
from ...due_times import by_expiry, may_expire
from ...records import Mark
from . import server_limits
from .due_counts import count_due
from .lane_keys import marked
from .tagged_rows import Findings, constant, due_query, finding, lagging, now, pauses

COUNTED = 200
"""The most ways (pairs of lane and priority) whose emails are counted. In each other way one email
is known to wait. They are as many as there are slots in three priorities. SQLite takes at most 500
terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The state of the outbox as a sweep sees it."""

    due: Mapping[LaneKey, DueEmails]  # the ways whose emails may go: not paused, lane not closed
    first: Mapping[LaneKey, Mark]  # where to start looking for emails in each of these ways
    flight: Mapping[LaneKey, InFlight]  # leases that hold, whether their task has started or not
    lags: Mapping[str, float]  # of the buckets in use: the others have been open for some time
    ahead: Mapping[str, float]  # buckets to correct, and the most seconds that each may owe
    set_back: bool  # so was a breaker opened or probed, or a lease taken
    lapsed: bool  # a lease has run out, and a rescue has something to do about it
    expired: bool  # a waiting email's time has run out
    jobs: bool  # a job of somebody's runs, a little in each sweep
    servers: Mapping[str, int | None]  # the limits of `server_limits` by name; None: no limit
    instance: str = ""  # the id of the instance; "": none is noted yet


Choose = Callable[[Snapshot], Iterable[LaneKey]]


def read_snapshot(
    database: Database,
    lanes: Lanes,
    servers: Sequence[ServerSettings],
    *,
    limit: int,
    since: Mapping[LaneKey, Mark] = MappingProxyType({}),
    choose: Choose = lambda snapshot: snapshot.due,
    term: float = 0.0,
    priorities: Sequence[Priority] = tuple(Priority),
) -> Snapshot:
    """Read all that a sweep decides by, and count the emails of the ways that `choose` returns.

    Only emails of these `priorities` are looked for.

    `choose` gets the snapshot before anything is counted. Counting stops at `limit` in each way. On
    PostgreSQL due emails before their mark in `since` are not looked at. Whether emails wait behind
    a mark is not known either, so the marked ways are always counted. A lease that was seen to have
    run out is `lapsed` again `term` seconds later, when it may be judged.
    """

    def work(connection: Connection) -> Snapshot:
        found = Findings(
            connection,
            database.built(snapshot_statement, term, *map(int, priorities)),
            marked(database, since),
        )
        snapshot = _uncounted(found, lanes, servers)
        ways = [way for way in dict.fromkeys([*since, *choose(snapshot)]) if way in snapshot.due]
        starts = {way: snapshot.first[way] for way in ways[:COUNTED]}
        limits = {way: min(limit, lanes.max_claimed(way[0]) or limit) for way in starts}
        due, first = dict(snapshot.due), dict(snapshot.first)
        counted = count_due(connection, database, found.now, starts, limits)
        for way in starts:
            if way in counted:
                first[way] = counted[way].first
                age = found.age(first[way].due_at)
                due[way] = DueEmails(emails=counted[way].emails, age=age)
            else:  # no email is left behind the mark, or other claims were faster
                del due[way], first[way]
        return replace(snapshot, due=due, first=first)

    return database.read(work)


def _uncounted(found: Findings, lanes: Lanes, servers: Sequence[ServerSettings]) -> Snapshot:
    """Return the snapshot before counting: at least one email waits in each of its ways."""
    lags, ahead = _lags(found, lanes, servers)
    limits = server_limits.limits(found)
    first = _first(found, lanes, lags)
    return Snapshot(
        due={way: DueEmails(emails=1, age=found.age(mark.due_at)) for way, mark in first.items()},
        first=first,
        flight=flight_of(found),
        lags=lags,
        ahead=ahead,
        servers={server.name: limits.get(server.name) for server in servers},
        instance="".join(row.name for row in found["instance"]),
        **{name: bool(found[name][0].number) for name in _FLAGS},
    )


def _lags(
    found: Findings, lanes: Lanes, servers: Sequence[ServerSettings]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the lags of the buckets in use; and the buckets to correct, each with its `debts`.

    A rate that somebody has raised counts at once: what was sent at the old one closes its bucket
    for no longer than one take at the new one does.
    """
    rated = {server.bucket: server.rate for server in servers if server.rate is not None}
    known = lanes.all_buckets
    rates = {row.name: rated.get(row.name) or known.get(row.name) for row in found["bucket"]}
    debts = {name: max_debt(rate) for name, rate in rates.items() if rate is not None}
    plain, lags = found.lags, found.lags_within(debts)
    wrong = found.ahead.union(name for name in plain if lags[name] < plain[name])
    in_use = {name: lag for name, lag in lags.items() if name in debts}
    return in_use, {name: debts.get(name, inf) for name in wrong}


def in_flight(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for the batches that take a slot, and the emails that they claimed."""
    lease = database.tables.lease.c
    found = finding("flight", lease.lane, lease.priority, func.count(), func.sum(lease.emails))
    return found.where(has_slot(database)).group_by(lease.lane, lease.priority)


def flight_of(found: Findings) -> dict[LaneKey, InFlight]:
    """Return what the rows of `in_flight` tell, and those of batches that wait for a reply."""
    awaited = {(row.name, Priority(row.priority)): row.number for row in found["awaited"]}
    flight = dict.fromkeys(awaited, InFlight(batches=0, emails=0)) | {
        (row.name, Priority(row.priority)): InFlight(batches=row.number, emails=int(row.emails))
        for row in found["flight"]
    }
    return {way: replace(one, awaited=awaited.get(way, 0)) for way, one in flight.items()}


_FLAGS = ("set_back", "lapsed", "expired", "jobs")


def _first(found: Findings, lanes: Lanes, lags: Mapping[str, float]) -> dict[LaneKey, Mark]:
    """Return the first due email of each way whose emails may go."""
    paused = found.paused
    return {
        (row.name, Priority(row.priority)): Mark(row.moment, row.first)
        for row in found["way"]
        if row.priority not in paused
        and found.age(row.moment) >= 0.0
        and not lanes.is_closed(row.name, lags)
    }


def snapshot_statement(
    database: Database, term: float = 0.0, *priorities: int
) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the statement of a snapshot, the only one of a sweep that finds nothing to do.

    It names no lane, domain or server, so it is the same for five thousand lanes.
    """
    moment, lease, job = database.now(), database.tables.lease.c, database.tables.job.c
    return union_all(
        now(database),
        finding("set_back", number=case((is_any_ahead(database, term), constant(1)), else_=0)),
        _flag("lapsed", (lease.expires_at <= moment) & asks_for_a_rescue(database, term)),
        _any_expired(database),
        _flag("jobs", job.state == JobState.RUNNING),
        # A lease that ran out holds no slot: its worker is most likely dead.
        in_flight(database),
        # But it has its connection. So has a batch that waits for the reply to a content.
        finding("awaited", lease.lane, lease.priority, func.count())
        .where(~has_slot(database), lease.server.is_not(None))
        .group_by(lease.lane, lease.priority),
        *server_limits.limiting(database),
        *lagging(database, -SLACK),
        pauses(database),
        finding("instance", database.tables.instance.c.instance),
        due_query(database, *map(Priority, priorities)),
    )


def asks_for_a_rescue(database: Database, term: float) -> ColumnElement[bool]:
    """Return the condition: a rescue would judge the lease, or note that it has run out.

    In between it could only look, in each sweep, for as long as a lease lasts. A lease that never
    started is judged at once, and noted only if it had a row that alone fails.
    """
    lease = database.tables.lease.c
    seen_long_ago = lease.suspected_at <= database.now(-term)
    return or_(is_not_noted(database), seen_long_ago)


def _any_expired(database: Database) -> Select[*tuple[Any, ...]]:
    """Return the statement for 1 or 0: whether any email that waits has expired.

    It looks at the one whose time runs out first. If the statement asked for those before the
    moment, PostgreSQL would expect a third of all unfinished emails, though no email has a time
    that runs out. In a backlog of a million it would go through the whole table at each sweep.
    """
    email = database.tables.email
    by_time = select(email.c.expires_at).where(may_expire(email)).order_by(*by_expiry(email))
    first = by_time.limit(constant(1)).subquery("first")
    found = finding("expired", number=func.count()).select_from(first)
    return found.where(first.c.expires_at <= database.now())


def _flag(what: str, condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Return the statement for 1 or 0: whether any row fulfils the condition."""
    found = select(constant(1).label("one")).where(condition)
    first = found.limit(constant(1)).subquery(what)
    return finding(what, number=func.count()).select_from(first)
