"""Which emails that have waited too long go before more urgent ones. Pure.

A window of such emails may go beyond the slots. But nothing may go beyond a rate, or beyond a cap
on a server's connections. While more urgent email uses these up, it would also get each place that
comes free. So a window that has waited too long goes first at times: once after each claim of the
email that keeps it waiting. In between that email goes first, as ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ..priority import Priority
from .claim_plan import AGED, ClaimRequest, DueEmails, InFlight, LaneKey
from .lanes import HORIZON, Lanes, route_of_lane
from .token_bucket import Rate

_NEVER = -1


def room_of(lane: str) -> str:
    """Return the name under which the room on a lane's servers stands beside its buckets."""
    return f"room:{route_of_lane(lane)}"


def overdue(
    due: Mapping[LaneKey, DueEmails],
    flight: Mapping[LaneKey, InFlight],
    requests: Sequence[ClaimRequest],
    *,
    lanes: Lanes,
    turns: Mapping[LaneKey, int],
    blocking: Callable[[LaneKey], frozenset[str]],
) -> list[LaneKey]:
    """Return the ways of which a window is to go first; `requests` are the plan without that.

    `blocking` returns the buckets, and the room, that a way lacks in that plan. Such a way has
    waited longer than `AGED`, and nothing of its priority is in flight on what it lacks. Of several
    ways that lack the same the one goes whose last turn is the longest ago.
    """
    flying = {way for way, found in flight.items() if found.batches}
    moving = flying.union((made.lane, made.priority) for made in requests)
    first = min((priority for _, priority in moving), default=Priority.BULK)
    aged = (
        way
        for way, found in due.items()
        if found.age > AGED and way[1] > first and way not in moving
    )
    lacking = {way: names for way in aged if (names := blocking(way))}
    if not lacking:
        return []
    # A process that has just begun knows of no turns, but what is in flight has had one.
    last = {**dict.fromkeys(due, _NEVER), **dict.fromkeys(flying, 0), **turns}
    every = frozenset[str]().union(*lacking.values())
    use = _Use({way: last[way] for way in moving.union(due)}, moving, lanes, every)
    chosen, given = list[LaneKey](), set[str]()
    refused = set[tuple[Priority, frozenset[str]]]()  # thousands of lanes may lack the same
    for way in sorted(lacking, key=lambda way: (last[way], -due[way].age, way)):
        (lane, priority), names = way, lacking[way]
        if (priority, names) in refused or not given.isdisjoint(names):
            continue
        # Beside urgent email that fills a rate only one batch gets permits: see `is_kept_out`.
        filled = lanes.buckets(lane).keys() & blocking((lane, Priority.URGENT))
        if use.is_turn_of(priority, names, filled):
            chosen.append(way)
            given |= names
        else:
            refused.add((priority, names))
    return chosen


class _Use:
    """Which priorities use each bucket and each room, and when each had its last turn there."""

    def __init__(
        self,
        last: Mapping[LaneKey, int],
        moving: Collection[LaneKey],
        lanes: Lanes,
        names: frozenset[str],
    ) -> None:
        """`last` gives the last turn of each way, and `moving` are those in flight or requested.

        Only the buckets and rooms of these `names` are looked at.
        """
        self._moving = defaultdict[str, set[Priority]](set)
        self._last = defaultdict[tuple[str, Priority], int](lambda: _NEVER)
        for way, number in last.items():
            lane, priority = way
            for name in names.intersection((*lanes.buckets(lane), room_of(lane))):
                self._last[name, priority] = max(self._last[name, priority], number)
                if way in moving:
                    self._moving[name].add(priority)

    def is_turn_of(
        self, priority: Priority, names: Collection[str], filled: Collection[str]
    ) -> bool:
        """Return whether a window of this priority goes first, for which these have no room.

        Urgent email alone has `filled` some of them.
        """
        moving = self._on(names)
        first = min(moving, default=priority)
        if first >= priority or priority in moving or self._on(filled) - {Priority.URGENT}:
            return False
        ahead = max(self._last[name, which] for name in names for which in _up_to(first))
        behind = max(self._last[name, which] for name in names for which in _after(first))
        return ahead >= max(behind, 0)

    def _on(self, names: Collection[str]) -> set[Priority]:
        return set[Priority]().union(*(self._moving[name] for name in names))


def is_kept_out(
    way: LaneKey,
    flight: Mapping[LaneKey, InFlight],
    waiting: Collection[str],
    lanes: Lanes,
    beside: Mapping[str, Rate] = MappingProxyType({}),
) -> bool:
    """Return whether urgent email would take each permit for which a batch of this way waits.

    That is so if urgent email has no end on one of its buckets, and no batch but this one waits
    beside that. The batch then takes its permits as early as urgent email does. All batches of one
    route draw on the buckets that are `beside` those of their lanes.
    """
    return bool(_endless(way[0], flight, waiting, lanes, beside))


def spared(
    way: LaneKey,
    flight: Mapping[LaneKey, InFlight],
    waiting: Collection[str],
    lanes: Lanes,
    beside: Mapping[str, Rate] = MappingProxyType({}),
) -> Callable[[LaneKey], bool]:
    """Return which more urgent ways a window does not give way to while it waits for permits.

    They wait for the same permits, so its slot and its process would help them little. If it gave
    way, it would do so each time that it is claimed. But to urgent email that comes to an end it
    gives way all the same. It is asked of a window that is its whole batch. That may be one which
    went first, and it ends after its permits.
    """
    drawn = partial(_drawn, way[0], lanes, beside)
    endless, ours = _endless(way[0], flight, waiting, lanes, beside), drawn(way[0])

    def is_spared(other: LaneKey) -> bool:
        lane, priority = other
        return not drawn(lane).isdisjoint(endless if priority is Priority.URGENT else ours)

    return is_spared


def _endless(
    own: str,
    flight: Mapping[LaneKey, InFlight],
    waiting: Collection[str],
    lanes: Lanes,
    beside: Mapping[str, Rate],
) -> frozenset[str]:
    """Return the buckets of which urgent email in flight has enough, and more of it is `waiting`.

    There are none where several batches that are not urgent draw on the buckets of the `own` lane.
    """
    drawn, urgent, others = partial(_drawn, own, lanes, beside), Counter[str](), 0
    ours = drawn(own)
    for (lane, priority), found in flight.items():
        if priority is Priority.URGENT:
            urgent.update(dict.fromkeys(drawn(lane), found.emails))
        elif not ours.isdisjoint(drawn(lane)):
            others += found.batches
    if others > 1:
        return frozenset()
    rates = {**lanes.buckets(own), **beside}
    more = ours & frozenset[str]().union(*map(drawn, waiting))
    return frozenset(name for name in more if urgent[name] >= _enough(rates[name]))


def _enough(rate: Rate) -> int:
    """Return from how many emails in flight on urgent email has no end, if more of it waits.

    That is less than a claim takes: a window that holds a slot keeps urgent email out of it.
    """
    return min(rate.within(HORIZON), max(2, rate.within(HORIZON / 2)))


def _drawn(own: str, lanes: Lanes, beside: Mapping[str, Rate], lane: str) -> frozenset[str]:
    """Return the buckets of a lane; those `beside` are of all lanes on the route of its `own`."""
    names = lanes.buckets(lane).keys()
    is_ours = route_of_lane(lane) == route_of_lane(own)
    return frozenset(names | beside.keys() if is_ours else names)


def _up_to(priority: Priority) -> list[Priority]:
    return [one for one in Priority if one <= priority]


def _after(priority: Priority) -> list[Priority]:
    return [one for one in Priority if one > priority]
