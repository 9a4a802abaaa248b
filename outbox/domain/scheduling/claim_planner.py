"""Decides how many emails to claim of which lane and priority, and in how many batches. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from heapq import heapify, heappop, heapreplace
from math import inf
from types import MappingProxyType

from ..priority import Priority
from .claim_plan import AGED, ClaimRequest, DueEmails, InFlight, LaneKey
from .lanes import AHEAD, Lanes, route_of_lane
from .overdue import overdue, room_of
from .permitted import Permitted, ceil_div

_SOONEST = 0.05
"""The least seconds to the next sweep: the hosts' clocks and the database's differ."""


def plan_claims(
    due: Mapping[LaneKey, DueEmails],
    flight: Mapping[LaneKey, InFlight],
    *,
    lanes: Lanes,
    lags: Mapping[str, float],
    slots: int,
    batch: int,
    window: int,
    rooms: Mapping[str, float] = MappingProxyType({}),
    turns: Mapping[LaneKey, int] = MappingProxyType({}),
) -> tuple[ClaimRequest, ...]:
    """Spread the due emails over the free slots, urgent first; `lags` are the buckets' lags.

    A small backlog is spread evenly, but a batch gets one window or more. Lanes of one priority get
    slots in turn: those with the fewest batches in flight first, and of these the one whose last of
    the `turns` is the longest ago. Bulk takes what the others leave, and gives way to them between
    its windows (`store/queries/sweep/preemption.py`).

    One urgent batch may go beyond the slots. So may one window each of normal and of bulk email
    that has waited longer than `AGED`. Each goes only while nothing of its priority is in flight.
    So a stream of urgent email without end never stops the rest. Where it is not a slot that is
    lacking, but permits or a server's room, such a window goes first at times: see `overdue`.

    `rooms` gives the batches that a route's servers take at once, where that is bounded. Caps on
    their connections bound it, and so does the ramp after an outage.

    A lane with a rate has at most some seconds' worth of permits in flight. Less urgent emails in
    flight are not counted, because they get their permits later.
    """
    planner = partial(
        _ClaimPlanner,
        due=due,
        flight=flight,
        lanes=lanes,
        lags=lags,
        rooms=rooms,
        turns=turns,
        slots=slots,
        batch=batch,
        window=window,
    )
    plan = planner()
    requests = plan.planned()
    late = overdue(due, flight, requests, lanes=lanes, turns=turns, blocking=plan.blocking)
    return planner(first=late).planned() if late else requests


def contenders(
    due: Mapping[LaneKey, DueEmails],
    flight: Mapping[LaneKey, InFlight],
    *,
    lanes: Lanes,
    lags: Mapping[str, float],
    slots: int,
    rooms: Mapping[str, float] = MappingProxyType({}),
    turns: Mapping[LaneKey, int] = MappingProxyType({}),
) -> list[LaneKey]:
    """Return the lanes and priorities that may get a slot, urgent first.

    The number of their emails is not needed here. Only these need to be counted afterwards: each
    priority has no more of them than there are slots. Of any other way one window is claimed at
    most.
    """
    planner = _ClaimPlanner(
        due=due,
        flight=flight,
        lanes=lanes,
        lags=lags,
        rooms=rooms,
        turns=turns,
        slots=slots,
        batch=1,
        window=1,
    )
    return [(lane, priority) for priority in Priority for lane in planner.contenders(priority)]


def next_opening(lags: Mapping[str, float]) -> float | None:
    """Return the seconds until a closed lane can be claimed from; None where no lane is closed.

    A closed bucket asks for one sweep, when it opens. An open bucket asks for none. So a sweep
    never causes the next one at once.
    """
    closed = [lag - AHEAD for lag in lags.values() if lag > AHEAD]
    return max(_SOONEST, min(closed)) if closed else None


@dataclass(kw_only=True)
class _ClaimPlanner:
    """The requests made so far, and what they leave: free slots, and room on the servers.

    Every figure that each lane needs is kept as a sum. Hundreds of lanes may wait, and a sweep
    should take milliseconds.
    """

    due: Mapping[LaneKey, DueEmails]
    flight: Mapping[LaneKey, InFlight]
    lanes: Lanes
    lags: Mapping[str, float]
    rooms: Mapping[str, float]  # by route: the batches that its servers take at once
    turns: Mapping[LaneKey, int]
    slots: int
    batch: int
    window: int
    first: Sequence[LaneKey] = ()  # the ways of which a window goes before all else
    requests: list[ClaimRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._running = Counter[Priority]()
        self._flying = Counter[str]()  # batches in flight by route
        for (lane, priority), found in self.flight.items():
            self._running[priority] += found.batches
            self._flying[route_of_lane(lane)] += found.batches + found.awaited
        self._used = self._flying.copy()  # the requests' batches included
        self._free = self.slots - self._running.total()
        self._rates = Permitted(
            due=self.due,
            flight=self.flight,
            lanes=self.lanes,
            lags=self.lags,
            slots=self.slots,
            window=self.window,
        )

    def planned(self) -> tuple[ClaimRequest, ...]:
        """Make the plan; return its requests, urgent first."""
        for way in self.first:
            self._go_first(way)
        for priority in Priority:
            self._spread(priority)
        for priority in (Priority.NORMAL, Priority.BULK):
            self._spread_aged(priority)
        return tuple(sorted(self.requests, key=lambda made: made.priority))

    def contenders(self, priority: Priority) -> list[str]:
        """Return the lanes that get the next slots, at most one for each free slot.

        Each of them can use a slot: its servers have room, and its buckets have a permit left after
        the lanes before it took theirs.
        """
        if (free := self._free_slots(priority)) <= 0:
            return []
        taken, used = self._rates.taken(priority, self.requests), Counter[str]()
        found: list[str] = []
        for lane in self._in_turn(priority):
            if len(found) >= free:
                break
            route = route_of_lane(lane)
            is_open = self._rates.is_left(lane, taken) and self._has_server_room(lane, used[route])
            if is_open and self._rates.batches(lane, priority, 1):
                found.append(lane)
                taken.update(self.lanes.buckets(lane).keys())
                used[route] += 1
        return found

    def blocking(self, way: LaneKey) -> frozenset[str]:
        """Return the buckets without a permit for this way, and its servers if they have no room.

        It is asked when the plan is made. It returns none where the batches in flight alone fill
        the servers: no plan makes room.
        """
        (lane, priority), route = way, route_of_lane(way[0])
        if self._flying[route] >= self.rooms.get(route, inf):
            return frozenset()
        lacking = self._full[priority].intersection(self.lanes.buckets(lane))
        if lane in self._loaded and not self._rates.batches(lane, priority, 1):
            lacking = lacking.union(self.lanes.buckets(lane))  # they keep up with its rate
        return lacking if self._has_server_room(lane) else lacking | {room_of(lane)}

    @cached_property
    def _full(self) -> dict[Priority, frozenset[str]]:
        """By priority: the buckets without a permit after those that are taken before."""
        return {one: self._rates.full(self._rates.taken(one, self.requests)) for one in Priority}

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """The lanes with batches in flight, of whatever priority."""
        return frozenset(lane for lane, _ in self.flight)

    def _spread(self, priority: Priority) -> None:
        """Give the free slots to the lanes in which emails of this priority wait."""
        lanes = self.contenders(priority)
        taken = self._rates.taken(priority, self.requests)
        emails = self._rates.emails(lanes, priority, taken)
        wanted = {lane: self._rates.batches(lane, priority, emails[lane]) for lane in lanes}
        for lane, batches in self._dealt(wanted, priority).items():
            least = self._rates.least(lane)
            size = min(self.batch, max(least, ceil_div(emails[lane], batches)))
            self._add(lane, priority, min(batches, ceil_div(emails[lane], size)), size)

    def _spread_aged(self, priority: Priority) -> None:
        """Add one window beyond the slots where email waited too long and none is in flight."""
        if self._is_moving(priority):
            return
        taken = self._rates.taken(priority, self.requests)
        for lane in self._in_turn(priority):
            is_aged = self.due[lane, priority].age > AGED
            if is_aged and self._rates.is_left(lane, taken) and self._has_server_room(lane):
                self._add(lane, priority, 1, self._rates.least(lane), is_beyond=True)
                return

    def _go_first(self, way: LaneKey) -> None:
        """Add one window of this way: beyond the slots as in `_spread_aged`, or in a free slot.

        Its servers may have had one place left, which another such window has taken.
        """
        lane, priority = way
        is_beyond = not self._is_moving(priority)
        if (is_beyond or self._free > 0) and self._has_server_room(lane):
            self._add(lane, priority, 1, self._rates.least(lane), is_beyond=is_beyond)

    def _is_moving(self, priority: Priority) -> bool:
        """Return whether email of this priority is in flight, or requested."""
        return self._running[priority] > 0 or any(m.priority is priority for m in self.requests)

    def _in_turn(self, priority: Priority) -> list[str]:
        """Return the lanes in which emails of this priority wait, in the order of their turns."""
        gone = {made.lane for made in self.requests if made.priority is priority}
        order = {
            lane: (self._load(lane, priority), self._turn(lane, priority), -found.age, lane)
            for (lane, which), found in self.due.items()
            if which is priority and lane not in gone
        }
        return sorted(order, key=order.__getitem__)

    def _load(self, lane: str, priority: Priority) -> int:
        """Return the number of the way's batches in flight."""
        found = self.flight.get((lane, priority))
        return 0 if found is None else found.batches

    def _turn(self, lane: str, priority: Priority) -> int:
        """Return the number of the way's last turn in this process.

        A new process knows of none, but a rate that is in use tells that there was one.
        """
        if (number := self.turns.get((lane, priority))) is not None:
            return number
        return 0 if self._rates.is_in_use(lane) else -1

    def _add(
        self, lane: str, priority: Priority, batches: int, size: int, *, is_beyond: bool = False
    ) -> None:
        self.requests.append(ClaimRequest(lane=lane, priority=priority, batches=batches, size=size))
        self._used[route_of_lane(lane)] += batches
        self._free -= 0 if is_beyond else batches

    def _free_slots(self, priority: Priority) -> int:
        """Return how many slots are left for this priority."""
        if priority is Priority.URGENT and not self._running[priority]:
            return max(self._free, 1)
        return self._free

    def _dealt(self, wanted: Mapping[str, int], priority: Priority) -> dict[str, int]:
        """Deal the free slots out in turn, each to the lane with the fewest batches in flight."""
        slots = self._free_slots(priority)
        dealt, used = Counter[str](), Counter[str]()
        turns = [(self._load(lane, priority), place, lane) for place, lane in enumerate(wanted)]
        heapify(turns)
        while slots > 0 and turns:
            load, place, lane = turns[0]
            route = route_of_lane(lane)
            if dealt[lane] == wanted[lane] or not self._has_server_room(lane, used[route]):
                heappop(turns)
                continue
            dealt[lane] += 1
            used[route] += 1
            slots -= 1
            heapreplace(turns, (load + 1, place, lane))
        return dict(dealt)

    def _has_server_room(self, lane: str, more: int = 0) -> bool:
        """Return whether the servers of the lane's route take a batch besides `more` others."""
        route = route_of_lane(lane)
        return self._used[route] + more < self.rooms.get(route, inf)
