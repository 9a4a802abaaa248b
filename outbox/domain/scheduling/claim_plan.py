"""How many emails to claim of which lane and priority, and in how many batches. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from math import inf
from types import MappingProxyType

from ..priority import Priority
from .lanes import AHEAD, HORIZON, Lanes, route_of_lane
from .token_bucket import SLACK

AGED = 60.0
"""Seconds of waiting after which an email may be claimed even though all slots are taken."""

_SOONEST = 0.05
"""The least seconds to the next sweep: the hosts' clocks and the database's differ."""

_RESPONSE = 0.2
"""Seconds that a server may take for one email while the planned batches keep up with a rate."""

LaneKey = tuple[str, Priority]
"""A lane and a priority, in short a *way*. One claim takes emails of one way."""

_UP_TO = {one: tuple(other for other in Priority if other <= one) for one in Priority}
"""By priority: it and the more urgent ones. Their emails get their permits first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DueEmails:
    """Emails that wait: a lower bound of their number, and the oldest one's age in seconds."""

    emails: int
    age: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class InFlight:
    """Claims whose lease holds, and the number of emails that they took."""

    batches: int
    emails: int
    awaited: int = 0
    """Further batches that take no slot, but a place on their server: others go before them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRequest:
    """Claims to make: `batches` of at most `size` emails each.

    An email that is claimed alone is one of these batches. One such email may come on top of them,
    beside the last batch. With `passes_lone` the claims pass over all such emails.
    """

    lane: str
    priority: Priority
    batches: int
    size: int
    passes_lone: bool = False


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
) -> tuple[ClaimRequest, ...]:
    """Spread the due emails over the free slots, urgent first; `lags` are the buckets' lags.

    A small backlog is spread evenly, but a batch gets one window or more. Lanes of one priority get
    slots in turn, those with the fewest batches in flight first. Bulk takes what the others leave,
    and gives way to them between its windows (`store/queries/sweep/preemption.py`).

    One urgent batch may go beyond the slots. So may one window each of normal and of bulk email
    that has waited longer than `AGED`. Each goes only while nothing of its priority is in flight.
    So a stream of urgent email without end never stops the rest.

    `rooms` gives the batches that a route's servers take at once, where that is bounded. Caps on
    their connections bound it, and so does the ramp after an outage.

    A lane with a rate has at most some seconds' worth of permits in flight. Less urgent emails in
    flight are not counted, because they get their permits later.
    """
    planner = _ClaimPlanner(
        due=due,
        flight=flight,
        lanes=lanes,
        lags=lags,
        rooms=rooms,
        slots=slots,
        batch=batch,
        window=window,
    )
    for priority in Priority:
        planner.spread(priority)
    for priority in (Priority.NORMAL, Priority.BULK):
        planner.spread_aged(priority)
    return tuple(planner.requests)


def contenders(
    due: Mapping[LaneKey, DueEmails],
    flight: Mapping[LaneKey, InFlight],
    *,
    lanes: Lanes,
    lags: Mapping[str, float],
    slots: int,
    rooms: Mapping[str, float] = MappingProxyType({}),
) -> list[LaneKey]:
    """Return the lanes and priorities that may get a slot, urgent first.

    The number of their emails is not needed here. Only these need to be counted afterwards: each
    priority has no more of them than there are slots.
    """
    planner = _ClaimPlanner(
        due=due, flight=flight, lanes=lanes, lags=lags, rooms=rooms, slots=slots, batch=1, window=1
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
    slots: int
    batch: int
    window: int
    requests: list[ClaimRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loads = Counter[str]()  # batches in flight by lane
        self._running = Counter[Priority]()
        self._used = Counter[str]()  # batches by route, the requests' included
        for (lane, priority), found in self.flight.items():
            self._loads[lane] += found.batches + found.awaited
            self._running[priority] += found.batches
            self._used[route_of_lane(lane)] += found.batches + found.awaited

    def spread(self, priority: Priority) -> None:
        """Give the free slots to the lanes in which emails of this priority wait."""
        lanes = self.contenders(priority)
        emails = self._claimable(lanes, priority)
        wanted = {lane: self._wanted(lane, priority, emails[lane]) for lane in lanes}
        for lane, batches in self._dealt(wanted, self._free_slots(priority)).items():
            size = min(self.batch, max(self._least(lane), _ceil_div(emails[lane], batches)))
            self._add(lane, priority, min(batches, _ceil_div(emails[lane], size)), size)

    def contenders(self, priority: Priority) -> list[str]:
        """Return the lanes that get the next slots, at most one for each free slot.

        Each of them can use a slot: its servers have room, and its buckets have a permit left after
        the lanes before it took theirs.
        """
        waiting = (lane for lane, which in self.due if which is priority)
        taken, used = self._taken(priority), Counter[str]()
        found: list[str] = []
        for lane in sorted(
            waiting, key=lambda lane: (self._loads[lane], -self.due[lane, priority].age, lane)
        ):
            if len(found) >= self._free_slots(priority):
                break
            buckets, route = self.lanes.buckets(lane), route_of_lane(lane)
            permitted = all(taken[name] < rate.within(HORIZON) for name, rate in buckets.items())
            has_room = self._has_server_room(lane, used[route])
            if permitted and has_room and self._wanted(lane, priority, 1):
                found.append(lane)
                taken.update(buckets.keys())
                used[route] += 1
        return found

    def spread_aged(self, priority: Priority) -> None:
        """Add one window beyond the slots where email waited too long and none is in flight."""
        if self._running[priority] or any(made.priority is priority for made in self.requests):
            return
        waiting = [(due.age, lane) for (lane, which), due in self.due.items() if which is priority]
        aged = sorted(((age, lane) for age, lane in waiting if age > AGED), reverse=True)
        lane = next((lane for _, lane in aged if self._is_open(lane, priority)), None)
        if lane is not None:
            self._add(lane, priority, 1, self._least(lane))

    def _is_open(self, lane: str, priority: Priority) -> bool:
        """Return whether the lane's rates and its servers have room for a batch."""
        return self._claimable([lane], priority)[lane] > 0 and self._has_server_room(lane)

    def _add(self, lane: str, priority: Priority, batches: int, size: int) -> None:
        self.requests.append(ClaimRequest(lane=lane, priority=priority, batches=batches, size=size))
        self._used[route_of_lane(lane)] += batches

    def _free_slots(self, priority: Priority) -> int:
        """Return how many slots are left for this priority."""
        free = self.slots - self._running.total() - sum(made.batches for made in self.requests)
        if priority is Priority.URGENT and not self._running[priority]:
            return max(free, 1)
        return free

    def _claimable(self, waiting: Sequence[str], priority: Priority) -> dict[str, int]:
        """Return how many emails of each lane its rates allow to be claimed now.

        A bucket's remaining permits are divided among the lanes that draw on it.
        """
        taken = self._taken(priority)
        rivals = Counter(bucket for lane in waiting for bucket in self.lanes.buckets(lane))
        emails: dict[str, int] = {}
        for lane in waiting:
            emails[lane] = self.due[lane, priority].emails
            buckets = self.lanes.buckets(lane)
            for bucket, rate in buckets.items():
                left = rate.within(HORIZON) - taken[bucket]
                emails[lane] = min(emails[lane], max(0, _ceil_div(left, rivals[bucket])))
            taken.update(dict.fromkeys(buckets, emails[lane]))
            rivals.subtract(buckets.keys())
        return emails

    def _taken(self, priority: Priority) -> Counter[str]:
        """Return by bucket how many claimed emails get their permits before these."""
        taken = Counter[str]()
        for (lane, which), found in self.flight.items():
            if which in _UP_TO[priority]:
                taken.update(dict.fromkeys(self.lanes.buckets(lane), found.emails))
        for made in self.requests:
            taken.update(dict.fromkeys(self.lanes.buckets(made.lane), made.batches * made.size))
        return taken

    def _wanted(self, lane: str, priority: Priority, emails: int) -> int:
        """Return the most batches that this lane can use. A few keep up with a rate in full use."""
        batches = _ceil_div(emails, self._least(lane))
        # An idle bucket has saved all its slack. A rate in use needs only a few batches.
        buckets = self.lanes.buckets(lane).items()
        in_use = [rate for name, rate in buckets if self.lags.get(name, -SLACK) > -SLACK]
        if in_use:
            ahead = [self.flight.get((lane, which)) for which in _UP_TO[priority]]
            enough = max(2, min(rate.within(_RESPONSE) for rate in in_use))
            batches = min(batches, enough - sum(found.batches for found in ahead if found))
        return max(0, batches)

    def _dealt(self, wanted: Mapping[str, int], slots: int) -> dict[str, int]:
        """Deal the slots out in turn, each to the lane with the fewest batches in flight."""
        dealt, used = Counter[str](), Counter[str]()
        turns = [(self._loads[lane], place, lane) for place, lane in enumerate(wanted)]
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

    def _least(self, lane: str) -> int:
        """Return the number of emails below which a batch of this lane is not split."""
        chunk = self.lanes.max_window(lane)
        return self.window if chunk is None else min(chunk, self.window)


def _ceil_div(number: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // by)
