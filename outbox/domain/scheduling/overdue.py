"""Which emails that have waited too long go before more urgent ones. Pure.

A window of such emails may go beyond the slots. But nothing may go beyond a rate, or beyond a cap
on a server's connections. While more urgent email uses these up, it would also get each place that
comes free. So a window that has waited too long goes first at times: once after each claim of the
email that keeps it waiting. In between that email goes first, as ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
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

    That is so if the urgent email in flight fills a rate, and more is `waiting` in lanes of that
    rate. The batch then takes its permits as early as urgent email does, if no batch but it alone
    waits beside that. All batches of one route draw on the buckets that are `beside` those of their
    lanes.
    """
    own, _ = way

    def drawn(lane: str) -> Mapping[str, Rate]:
        is_ours = route_of_lane(lane) == route_of_lane(own)
        return {**lanes.buckets(lane), **beside} if is_ours else lanes.buckets(lane)

    rates, others, urgent = drawn(own), 0, Counter[str]()
    names = rates.keys()
    for (lane, priority), found in flight.items():
        shared = names & drawn(lane).keys()
        if priority is Priority.URGENT:
            urgent.update(dict.fromkeys(shared, found.emails))
        elif shared:
            others += found.batches
    more = {name for lane in waiting for name in names & drawn(lane).keys()}
    filled = (name for name in more if urgent[name] >= rates[name].within(HORIZON))
    return others <= 1 and any(filled)


def _up_to(priority: Priority) -> list[Priority]:
    return [one for one in Priority if one <= priority]


def _after(priority: Priority) -> list[Priority]:
    return [one for one in Priority if one > priority]
