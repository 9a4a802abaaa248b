"""How many mails to claim of which lane and priority, and in how many batches. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from .lanes import HORIZON, Lanes, route_of
from .priority import Priority
from .rate import SLACK

AGED = 60.0
"""Seconds after which a bulk mail no longer waits for a slot that nobody else wants."""

AHEAD = 1.0
"""Seconds before a bucket opens at which its lane is claimed from: a batch may wait for a permit,
and so the next one stands ready. A lane whose bucket stays closed for longer waits in the table."""

_SOONEST = 0.05
"""Seconds to the next sweep at the least: the hosts' clocks and the database's run apart."""

_RESPONSE = 0.2
"""Seconds that a server may take a mail, and two or more batches still keep up with a rate."""

Way = tuple[str, Priority]
"""A lane and a priority: what one claim takes from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """Mails that wait: how many, counted up to a limit, and the oldest one's age in seconds."""

    mails: int
    age: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flight:
    """Claims whose lease holds, and the mails that they were made with."""

    batches: int
    mails: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Claims to make: `batches` of at most `size` mails each."""

    lane: str
    priority: Priority
    batches: int
    size: int


def share(
    due: Mapping[Way, Due],
    flight: Mapping[Way, Flight],
    *,
    lanes: Lanes,
    lags: Mapping[str, float],
    slots: int,
    batch: int,
    window: int,
    rooms: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Share, ...]:
    """Spread the due mails over the free slots, urgent first; `lags` are those of the buckets.

    A small backlog is spread evenly, but not below one window a batch. Lanes of one priority get
    slots in turn, those with the fewest batches in flight first. Bulk never takes the last free
    slot where there are two slots or more. Beyond the slots goes one urgent batch, and one window
    of bulk that has waited too long, where none is in flight yet.

    `rooms` names the batches that a route's servers take at once, where that is bounded: by caps on
    their connections, or because they have just come back from an outage.

    Of a lane with a rate no more than some seconds' worth is in flight; less urgent mail is not
    counted there, because it waits for its permits behind.
    """
    plan = _Plan(
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
        plan.spread(priority)
    plan.spread_aged()
    return tuple(plan.shares)


def next_opening(lags: Mapping[str, float]) -> float | None:
    """Return in how many seconds a lane can be claimed from that cannot now; None where all can.

    So a bucket asks for one sweep, at its opening, and an open one for none: no sweep brings the
    next one at once.
    """
    closed = [lag - AHEAD for lag in lags.values() if lag > AHEAD]
    return max(_SOONEST, min(closed)) if closed else None


@dataclass(kw_only=True)
class _Plan:
    """The shares made so far, and what they leave."""

    due: Mapping[Way, Due]
    flight: Mapping[Way, Flight]
    lanes: Lanes
    lags: Mapping[str, float]
    rooms: Mapping[str, float]
    slots: int
    batch: int
    window: int
    shares: list[Share] = field(default_factory=list)

    def spread(self, priority: Priority) -> None:
        """Give the free slots to the lanes in which mails of this priority wait."""
        waiting = sorted(
            (lane for lane, which in self.due if which is priority and self._has_room(lane, {})),
            key=lambda lane: (self._load(lane), -self.due[lane, priority].age, lane),
        )
        mails = self._claimable(waiting, priority)
        wanted = {lane: self._wanted(lane, priority, mails[lane]) for lane in waiting}
        for lane, room in self._dealt(wanted, self._room(priority)).items():
            size = min(self.batch, max(self._least(lane), -(-mails[lane] // room)))
            self._add(lane, priority, min(room, -(-mails[lane] // size)), size)

    def spread_aged(self) -> None:
        """Send one window of bulk beyond the slots, where bulk waits too long and has none."""
        bulk = Priority.BULK
        if self._running(bulk) or any(part.priority is bulk for part in self.shares):
            return
        aged = [(due.age, lane) for (lane, which), due in self.due.items() if which is bulk]
        ready = [(age, lane) for age, lane in aged if age > AGED and self._is_open(lane)]
        if ready:
            _, lane = max(ready)
            self._add(lane, bulk, 1, self._least(lane))

    def _is_open(self, lane: str) -> bool:
        """Return whether a batch of bulk could go: by the lane's rate, and by its servers."""
        return self._claimable([lane], Priority.BULK)[lane] > 0 and self._has_room(lane, {})

    def _add(self, lane: str, priority: Priority, batches: int, size: int) -> None:
        self.shares.append(Share(lane=lane, priority=priority, batches=batches, size=size))

    def _room(self, priority: Priority) -> int:
        running = sum(found.batches for found in self.flight.values())
        free = self.slots - running - sum(part.batches for part in self.shares)
        if priority is Priority.URGENT and not self._running(priority):
            return max(free, 1)
        return free - 1 if priority is Priority.BULK and self.slots > 1 else free

    def _claimable(self, waiting: Sequence[str], priority: Priority) -> dict[str, int]:
        """Return the mails of each lane that its rates let be claimed now."""
        mails: dict[str, int] = {}
        for place, lane in enumerate(waiting):
            mails[lane] = self.due[lane, priority].mails
            for bucket, rate in self.lanes.buckets(lane).items():
                beside = self.lanes.drawing_on(bucket)
                left = rate.within(HORIZON) - self._taken(beside, priority)
                left -= sum(mails.get(other, 0) for other in waiting[:place] if other in beside)
                rivals = sum(other in beside for other in waiting[place:])
                mails[lane] = min(mails[lane], max(0, -(-left // rivals)))
        return mails

    def _taken(self, beside: frozenset[str], priority: Priority) -> int:
        """Return the mails of these lanes that are claimed and have their permits before ours."""
        return sum(
            found.mails
            for (lane, which), found in self.flight.items()
            if which <= priority and lane in beside
        ) + sum(part.batches * part.size for part in self.shares if part.lane in beside)

    def _wanted(self, lane: str, priority: Priority, mails: int) -> int:
        """Return the most batches that this lane can use: of a rate in full use a few keep up."""
        batches = -(-mails // self._least(lane))
        buckets = self.lanes.buckets(lane).items()
        pressed = [rate for name, rate in buckets if self.lags.get(name, -SLACK) > -SLACK]
        if pressed:
            running = sum(self._running(which, lane) for which in Priority if which <= priority)
            enough = max(2, min(rate.within(_RESPONSE) for rate in pressed))
            batches = min(batches, enough - running)
        return max(0, batches)

    def _dealt(self, wanted: Mapping[str, int], room: int) -> dict[str, int]:
        """Deal the slots out in turn, each to the lane with the fewest batches in flight."""
        dealt = Counter[str]()
        for _ in range(room):
            open_ = [
                lane
                for lane, most in wanted.items()
                if dealt[lane] < most and self._has_room(lane, dealt)
            ]
            if not open_:
                break
            dealt[min(open_, key=lambda lane: self._load(lane) + dealt[lane])] += 1
        return dict(dealt)

    def _has_room(self, lane: str, dealt: Mapping[str, int]) -> bool:
        """Return whether the servers of the lane's route take one batch more."""
        route = route_of(lane)
        taken = [
            *(
                found.batches
                for (other, _), found in self.flight.items()
                if route_of(other) == route
            ),
            *(part.batches for part in self.shares if route_of(part.lane) == route),
            *(batches for other, batches in dealt.items() if route_of(other) == route),
        ]
        return sum(taken) < self.rooms.get(route, inf)

    def _least(self, lane: str) -> int:
        """Return the mails below which a batch of this lane is not split."""
        chunk = self.lanes.chunk(lane)
        return self.window if chunk is None else min(chunk, self.window)

    def _load(self, lane: str) -> int:
        return sum(self._running(priority, lane) for priority in Priority)

    def _running(self, priority: Priority, lane: str | None = None) -> int:
        return sum(
            found.batches
            for (other, which), found in self.flight.items()
            if which is priority and lane in (None, other)
        )
