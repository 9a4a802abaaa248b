"""Tells whether more urgent email waits or is active, so that other email gives way to it.

A process asks ten times a second. The more urgent email is first in the index of due emails, so the
cost depends only on the number of lanes in which it waits. Nobody gives way to email that another
transaction has locked: no sweep could claim it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, func, union_all

from ....domain.config.routing import Routes
from ....domain.delivery.breaker_timing import BreakerState
from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ....domain.scheduling.lanes import AHEAD, Lanes, route_of_lane
from ....domain.scheduling.overdue import is_kept_out
from ....domain.scheduling.token_bucket import Rate
from ...connection.database import Database
from ...control import rate_limits
from ...control.connection_caps import full_for_now
from ...control.lease import has_slot
from .lane_keys import marked
from .locked_emails import is_any_free
from .sweep_snapshot import asks_for_a_rescue, flight_of, in_flight
from .tagged_rows import Findings, due_query, finding, lagging, now, pauses

_STUCK = 0.3
"""Seconds within which an urgent batch starts if any process is free."""

_UNCLAIMED = 0.03
"""Seconds within which urgent email is claimed if any process is free to sweep."""

_LEFT = 2.0
"""Seconds after which due email stays unclaimed, or a batch unstarted, only where no process is
free."""

_LONG = 1.0
"""Seconds after which due email is active only if no other transaction has locked it."""

_URGENT = Priority.URGENT

AskClaimable = Callable[[Set[LaneKey]], Collection[LaneKey]]
"""Returns the ways whose emails a sweep would claim if the batch that asks ended, without those it
is given. It is asked only where email waits: its rate may be in flight already, or its server full.
"""

_MOST_ASKED = 3
"""How often it is asked at most, where other transactions have locked the emails of its answer."""


def is_urgent_active(database: Database, lanes: Lanes, lane: str) -> bool:
    """Return whether urgent email that shares a bucket with this lane is due or in flight."""
    found = _look(database, _stirring)
    if any(lanes.share_a_bucket(lane, row.name) for row in found["flight"]):
        return True
    waiting = _waiting(found, _URGENT).items()
    ages = {name: age for name, age in waiting if lanes.share_a_bucket(lane, name)}
    # Bulk only slows down for it, so most often nothing needs to be asked, and nothing is locked.
    if any(0.0 <= age < _LONG for age in ages.values()):
        return True
    return _is_any_due(database, ages, _URGENT, 0.0)


def _stirring(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    flying = (lease.priority == int(_URGENT)) & has_slot(database)
    return union_all(
        now(database),
        finding("flight", lease.lane).where(flying).group_by(lease.lane),
        due_query(database, _URGENT),
    )


def keeps_out(database: Database, lanes: Lanes, way: LaneKey, beside: Mapping[str, Rate]) -> bool:
    """Return whether urgent email would take each permit before a batch: see `is_kept_out`."""
    found = _look(database, _flying)
    waiting = [lane for lane, age in _waiting(found, _URGENT).items() if age >= 0.0]
    return is_kept_out(way, flight_of(found), waiting, lanes, beside)


def _flying(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(now(database), in_flight(database), due_query(database, _URGENT))


class YieldQuestion:
    """Asks whether other email gives way to email that a sweep would claim.

    It would not go if `routes` give it only servers that are halted or whose rates are used up, or
    if it is not `claimable`.
    """

    def __init__(
        self, database: Database, lanes: Lanes, routes: Routes, claimable: AskClaimable
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._routes = routes
        self._claimable = claimable

    def yields_to_urgent(self, *, slots: int) -> bool:
        """Return whether urgent email could go, but lacks a free slot or a process to claim it.

        An urgent batch whose task has not started yet waits too. It does not count as holding a
        slot: once one batch has given way to it, the others need not. If it stays unstarted, some
        worker has fetched the task while all its processes are busy. Then every batch gives way.
        Every batch also gives way if urgent email stays unclaimed although a slot is free. Then
        every process is busy, and none is left to sweep.
        """
        return self._urgent_lacks(_look(self._database, _waits), slots)

    def bulk_yields(self, *, slots: int) -> bool:
        """Return whether bulk gives way: to urgent email as above, or to normal email.

        Normal email lacks a place only while no batch but bulk goes on: it needs one slot that is
        free, and one process. So bulk may take all of them while nothing else waits.
        """
        found = _look(self._database, _waits_for_bulk)
        if self._urgent_lacks(found, slots):
            return True
        if _number(found, "others"):
            return False
        if _number(found, "kept"):
            return True
        seconds = 0.0 if _number(found, "bulk") >= slots else _UNCLAIMED
        # Only now, because normal email may wait in thousands of lanes.
        return self._has_waited(_look(self._database, _normal), Priority.NORMAL, seconds)

    def is_any_left(self, *, term: float) -> bool:
        """Return whether an email could go, and no process has been free to take it up.

        It is due and unclaimed, or its batch was not started. Or its worker is lost, and no sweep
        has come by to rescue it: a lease that was seen to have run out is judged `term` seconds
        later.
        """
        found = _look(self._database, _all, term)
        if _number(found, "unstarted") or _number(found, "lost"):
            return True
        return any(self._has_waited(found, priority, _LEFT) for priority in Priority)

    def _urgent_lacks(self, found: Findings, slots: int) -> bool:
        names = ("holding", "published", "stuck")
        holding, published, stuck = (_number(found, name) for name in names)
        if stuck or (published and holding >= slots):
            return True
        return self._has_waited(found, _URGENT, 0.0 if holding >= slots else _UNCLAIMED)

    def _has_waited(self, found: Findings, priority: Priority, seconds: float) -> bool:
        """Return whether an email that a sweep would claim has been due for so many seconds."""
        if priority in found.paused:
            return False
        due = {lane: age for lane, age in self._ages(found, priority).items() if age >= seconds}
        locked = set[LaneKey]()
        for _ in range(_MOST_ASKED if due else 0):
            ways = self._claimable(locked)
            could_go = {lane: age for lane, age in due.items() if (lane, priority) in ways}
            if not could_go or _is_any_due(self._database, could_go, priority, seconds):
                return bool(could_go)
            locked |= {(lane, priority) for lane in could_go}
        return False

    def _ages(self, found: Findings, priority: Priority) -> Mapping[str, float]:
        """Return what `_waiting` does, without the lanes whose emails may not go now."""
        lags = {**found.lags, **rate_limits.avoided(self._database)}
        halted = {row.name for row in found["halted"]} | set(full_for_now(self._database))
        return {
            lane: age
            for lane, age in _waiting(found, priority).items()
            if not self._lanes.is_closed(lane, lags)
            and _is_usable(lane, self._routes, lags, halted)
        }


def _waits(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*_of_urgent(database), due_query(database, _URGENT))


def _waits_for_bulk(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    is_kept = lease.started_at.is_(None) & (lease.claimed_at < database.now(-_STUCK))
    more_urgent = lease.priority < int(Priority.BULK)
    kinds = {
        "bulk": lease.priority == int(Priority.BULK),
        "others": more_urgent & ~is_kept,
        "kept": more_urgent & is_kept,  # some worker has fetched its task, and cannot start it
    }
    return union_all(*_of_urgent(database), *_leases(database, kinds), due_query(database, _URGENT))


def _normal(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*_obstacles(database), due_query(database, Priority.NORMAL))


def _all(database: Database, term: float) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    long_ago = database.now(-_LEFT)
    unstarted = lease.started_at.is_(None) & (lease.claimed_at <= long_ago)
    # One without emails ended well: only rows that others have locked are left of it.
    lost = (lease.expires_at <= long_ago) & (lease.emails > 0)
    is_asked_for = asks_for_a_rescue(database, term + _LEFT)
    return union_all(
        *_obstacles(database),
        *_leases(database, {"unstarted": unstarted}),
        finding("lost", number=func.count()).where(lost, is_asked_for),
        due_query(database),
    )


def _of_urgent(database: Database) -> Iterator[Select[*tuple[Any, ...]]]:
    lease = database.tables.lease.c
    unstarted = (lease.priority == int(_URGENT)) & lease.started_at.is_(None)
    late = lease.claimed_at < database.now(-_STUCK)
    yield from _obstacles(database)
    yield from _leases(
        database, {"holding": ~unstarted, "published": unstarted, "stuck": unstarted & late}
    )


def _obstacles(database: Database) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield statements for what keeps due email from going: halts, rates and pauses."""
    breaker = database.tables.breaker.c
    yield now(database)
    yield finding("halted", breaker.server).where(breaker.state == BreakerState.OPEN)
    yield from lagging(database, AHEAD)
    yield pauses(database)


def _leases(
    database: Database, kinds: Mapping[str, ColumnElement[bool]]
) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield a statement for each kind of lease: how many there are that hold."""
    for name, kind in kinds.items():
        yield finding(name, number=func.count()).where(has_slot(database), kind)


def _look(database: Database, statement: Any, *key: float) -> Findings:
    built = database.built(statement, *key)
    return database.read(lambda connection: Findings(connection, built, marked(database, {})))


def _waiting(found: Findings, priority: Priority) -> Mapping[str, float]:
    """Return how long each lane's first email of this priority has been due, in seconds.

    It is below 0 where it is not due yet.
    """
    return {row.name: found.age(row.moment) for row in found["way"] if row.priority == priority}


def _number(found: Findings, what: str) -> int:
    return int(found[what][0].number)


def _is_any_due(
    database: Database, ages: Mapping[str, float], priority: Priority, seconds: float
) -> bool:
    """Return whether an email has been due for so many seconds that a sweep could claim.

    `ages` tells for how long the first email of each lane has been due. Another transaction may
    have it locked. To ask costs a statement, and locks an email for a moment.
    """
    due = {lane: age for lane, age in ages.items() if age >= seconds}
    oldest_first = sorted(due, key=lambda lane: -due[lane])
    return is_any_free(database, [(lane, priority) for lane in oldest_first], seconds=seconds)


def _is_usable(lane: str, routes: Routes, lags: Mapping[str, float], halted: set[str]) -> bool:
    """Return whether any server of the lane's route takes emails now."""
    return any(
        server.name not in halted and not (server.rate and lags.get(server.bucket, 0.0) > AHEAD)
        for server in routes.servers_of(route_of_lane(lane))
    )
