"""How many emails the rates allow to be claimed now, and how many batches they keep busy. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..priority import Priority
from .claim_plan import ClaimRequest, DueEmails, InFlight, LaneKey
from .lanes import HORIZON, Lanes
from .token_bucket import SLACK

ROUND = 20.0
"""Seconds in which all waiting lanes of a priority can have a turn, as far as their rates decide.
Where they are more than ten for each slot, each of them claims less than `HORIZON`."""

_RESPONSE = 0.2
"""Seconds that a server may take for one email while the planned batches keep up with a rate."""

_UP_TO = {one: tuple(other for other in Priority if other <= one) for one in Priority}
"""By priority: it and the more urgent ones. Their emails get their permits first."""


@dataclass(kw_only=True)
class Permitted:
    """What the rates of the lanes permit beside the emails in flight."""

    due: Mapping[LaneKey, DueEmails]
    flight: Mapping[LaneKey, InFlight]
    lanes: Lanes
    lags: Mapping[str, float]
    slots: int
    window: int

    def __post_init__(self) -> None:
        self._waiting = Counter(priority for _, priority in self.due)
        # An idle bucket has saved all its slack.
        self._in_use = {name for name, lag in self.lags.items() if lag > -SLACK}

    def taken(self, priority: Priority, requests: Iterable[ClaimRequest]) -> Counter[str]:
        """Return by bucket how many claimed emails get their permits before these."""
        taken = Counter[str]()
        for (lane, which), found in self.flight.items():
            if which <= priority:
                taken.update(dict.fromkeys(self.lanes.buckets(lane), found.emails))
        for made in requests:
            if made.priority <= priority:
                emails = made.batches * made.size
                taken.update(dict.fromkeys(self.lanes.buckets(made.lane), emails))
        return taken

    def is_left(self, lane: str, taken: Mapping[str, int]) -> bool:
        """Return whether each bucket of the lane has a permit left after those that are taken."""
        buckets = self.lanes.buckets(lane).items()
        return all(taken[name] < rate.within(HORIZON) for name, rate in buckets)

    def full(self, taken: Mapping[str, int]) -> frozenset[str]:
        """Return the buckets that have no permit left after those that are taken."""
        rates = self.lanes.all_buckets
        full = (name for name, n in taken.items() if n >= rates[name].within(HORIZON))
        return frozenset(full)

    def emails(
        self, waiting: Sequence[str], priority: Priority, taken: Counter[str]
    ) -> dict[str, int]:
        """Return how many emails of each lane may be claimed; add them to `taken`.

        A bucket's remaining permits are divided among the lanes that draw on it.
        """
        rivals = Counter(bucket for lane in waiting for bucket in self.lanes.buckets(lane))
        seconds = min(HORIZON, ROUND * self.slots / max(1, self._waiting[priority]))
        emails: dict[str, int] = {}
        for lane in waiting:
            emails[lane] = self.due[lane, priority].emails
            buckets = self.lanes.buckets(lane)
            for bucket, rate in buckets.items():
                left = rate.within(HORIZON) - taken[bucket]
                most = min(rate.within(seconds), max(0, ceil_div(left, rivals[bucket])))
                emails[lane] = min(emails[lane], most)
            taken.update(dict.fromkeys(buckets, emails[lane]))
            rivals.subtract(buckets.keys())
        return emails

    def batches(self, lane: str, priority: Priority, emails: int) -> int:
        """Return the most batches that this lane can use. A few keep up with a rate in full use."""
        batches = ceil_div(emails, self.least(lane))
        if self.is_in_use(lane):
            rates = [
                rate for name, rate in self.lanes.buckets(lane).items() if name in self._in_use
            ]
            ahead = [self.flight.get((lane, which)) for which in _UP_TO[priority]]
            enough = max(2, min(rate.within(_RESPONSE) for rate in rates))
            batches = min(batches, enough - sum(found.batches for found in ahead if found))
        return max(0, batches)

    def is_in_use(self, lane: str) -> bool:
        """Return whether one of the lane's rates is in use."""
        return not self._in_use.isdisjoint(self.lanes.buckets(lane))

    def least(self, lane: str) -> int:
        """Return the number of emails below which a batch of this lane is not split."""
        chunk = self.lanes.max_window(lane)
        return self.window if chunk is None else min(chunk, self.window)


def ceil_div(number: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // by)
