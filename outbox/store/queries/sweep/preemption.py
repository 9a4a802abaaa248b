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
from ....domain.scheduling.claim_plan import InFlight, LaneKey
from ....domain.scheduling.lanes import AHEAD, Lanes, route_of_lane
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

_URGENT = Priority.URGENT

AskClaimable = Callable[[Set[LaneKey]], Collection[LaneKey]]
"""Returns the ways whose emails a sweep would claim if the batch that asks ended, without those it
is given. It is asked only where email waits: its rate may be in flight already, or its server full.
"""

_MOST_ASKED = 3
"""How often it is asked at most, where other transactions have locked the emails of its answer."""

Spares = Callable[[LaneKey], bool]
AskSpared = Callable[[Mapping[LaneKey, InFlight], Collection[str]], Spares]
"""Returns to which ways the batch that asks does not give way while it waits for its permits. It is
given what is in flight, and the lanes in which urgent email is due. See `overdue.spared`."""


def spares_none(*_: object) -> Spares:
    """Return that the batch gives way to all more urgent ways."""
    return lambda _: False


class YieldQuestion:
    """Asks whether other email gives way to email that a sweep would claim.

    It would not go if `routes` give it only servers that are halted or whose rates are used up, or
    if it is not `claimable`.
    """

    def __init__(
        self,
        database: Database,
        lanes: Lanes,
        routes: Routes,
        claimable: AskClaimable,
        spares: AskSpared = spares_none,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._routes = routes
        self._claimable = claimable
        self._spares = spares
        self.has_spared = False
        """Whether other email waits to which another batch might have to give way."""
        self.has_urgent = False
        """Whether any urgent email was due or in flight."""

    def yields_to_urgent(self, *, slots: int) -> bool:
        """Return whether urgent email could go, but lacks a free slot or a process to claim it.

        An urgent batch whose task has not started yet waits too. It does not count as holding a
        slot: once one batch has given way to it, the others need not. If it stays unstarted, some
        worker has fetched the task while all its processes are busy. Then every batch gives way.
        Every batch also gives way if urgent email stays unclaimed although a slot is free. Then
        every process is busy, and none is left to sweep.
        """
        return self._urgent_lacks(look(self._database, _waits), slots)

    def bulk_yields(self, *, slots: int) -> bool:
        """Return whether bulk gives way: to urgent email as above, or to normal email.

        Normal email lacks a place only while no batch but bulk goes on: it needs one slot that is
        free, and one process. So bulk may take all of them while nothing else waits.
        """
        found = look(self._database, _waits_for_bulk)
        if self._urgent_lacks(found, slots):
            return True
        if _number(found, "others"):
            return False
        spares = self._spares_of(found)
        if self._unspared(found, "kept", spares):
            return True
        bulk = sum(one.batches for way, one in flight_of(found).items() if way[1] is Priority.BULK)
        seconds = 0.0 if bulk >= slots else _UNCLAIMED
        # Only now, because normal email may wait in thousands of lanes.
        normal = look(self._database, _normal)
        return self._has_waited(normal, Priority.NORMAL, seconds, spares)

    def is_any_left(self, *, term: float) -> bool:
        """Return whether an email could go, and no process has been free to take it up.

        It is due and unclaimed, or its batch was not started. Or its worker is lost, and no sweep
        has come by to rescue it: a lease that was seen to have run out is judged `term` seconds
        later.
        """
        found = look(self._database, _all, term)
        if _number(found, "unstarted") or _number(found, "lost"):
            return True
        return any(self._has_waited(found, priority, _LEFT) for priority in Priority)

    def _urgent_lacks(self, found: Findings, slots: int) -> bool:
        is_due = any(age >= 0.0 for age in waiting_of(found, _URGENT).values())
        self.has_urgent = is_due or any(row.priority == _URGENT for row in found["flight"])
        spares = self._spares_of(found)
        holding = _number(found, "holding")
        stuck, published = (self._unspared(found, name, spares) for name in ("stuck", "published"))
        if stuck or (published and holding >= slots):
            return True
        return self._has_waited(found, _URGENT, 0.0 if holding >= slots else _UNCLAIMED, spares)

    def _spares_of(self, found: Findings) -> Spares:
        waiting = [lane for lane, age in waiting_of(found, _URGENT).items() if age >= 0.0]
        return self._spares(flight_of(found), waiting)

    def _unspared(self, found: Findings, what: str, spares: Spares) -> bool:
        """Return whether there are such leases of ways that are not spared."""
        answers = [spares((row.name, Priority(row.priority))) for row in found[what]]
        self.has_spared |= any(answers)
        return not all(answers)

    def _has_waited(
        self, found: Findings, priority: Priority, seconds: float, spares: Spares = lambda _: False
    ) -> bool:
        """Return whether an email that a sweep would claim has been due for so many seconds."""
        if priority in found.paused:
            return False
        late = {lane: age for lane, age in self._ages(found, priority).items() if age >= seconds}
        due = {lane: age for lane, age in late.items() if not spares((lane, priority))}
        self.has_spared |= len(due) < len(late)
        locked = set[LaneKey]()
        for _ in range(_MOST_ASKED if due else 0):
            ways = self._claimable(locked)
            could_go = {lane: age for lane, age in due.items() if (lane, priority) in ways}
            if not could_go or is_any_due(self._database, could_go, priority, seconds):
                return bool(could_go)
            locked |= {(lane, priority) for lane in could_go}
        return False

    def _ages(self, found: Findings, priority: Priority) -> Mapping[str, float]:
        """Return what `waiting_of` does, without the lanes whose emails may not go now."""
        lags = {**found.lags, **rate_limits.avoided(self._database)}
        halted = {row.name for row in found["halted"]} | set(full_for_now(self._database))
        return {
            lane: age
            for lane, age in waiting_of(found, priority).items()
            if not self._lanes.is_closed(lane, lags)
            and _is_usable(lane, self._routes, lags, halted)
        }


def _waits(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*_of_urgent(database), due_query(database, _URGENT))


def _waits_for_bulk(database: Database) -> CompoundSelect[*tuple[Any, ...]]:
    lease = database.tables.lease.c
    is_kept = lease.started_at.is_(None) & (lease.claimed_at < database.now(-_STUCK))
    more_urgent = lease.priority < int(Priority.BULK)
    return union_all(
        *_of_urgent(database),
        *_leases(database, {"others": more_urgent & ~is_kept}),
        # Some worker has fetched its task, and cannot start it.
        *_ways_of_leases(database, {"kept": more_urgent & is_kept}),
        due_query(database, _URGENT),
    )


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
    yield in_flight(database)
    yield from _leases(database, {"holding": ~unstarted})
    yield from _ways_of_leases(database, {"published": unstarted, "stuck": unstarted & late})


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


def _ways_of_leases(
    database: Database, kinds: Mapping[str, ColumnElement[bool]]
) -> Iterator[Select[*tuple[Any, ...]]]:
    """Yield a statement for each kind of lease: of which ways there are any that hold."""
    lease = database.tables.lease.c
    for name, kind in kinds.items():
        found = finding(name, lease.lane, lease.priority).where(has_slot(database), kind)
        yield found.group_by(lease.lane, lease.priority)


def look(database: Database, statement: Any, *key: float) -> Findings:
    built = database.built(statement, *key)
    return database.read(lambda connection: Findings(connection, built, marked(database, {})))


def waiting_of(found: Findings, priority: Priority) -> Mapping[str, float]:
    """Return how long each lane's first email of this priority has been due, in seconds.

    It is below 0 where it is not due yet.
    """
    return {row.name: found.age(row.moment) for row in found["way"] if row.priority == priority}


def _number(found: Findings, what: str) -> int:
    return int(found[what][0].number)


def is_any_due(
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
