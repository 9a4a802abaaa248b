"""Lanes: emails that go the same way under the same limits wait in the same lane. Pure.

A lane's name is its route's name, with "@domain" behind it where the recipient's domain has its own
rate: "", "@gmail.com", "news@gmail.com". A claim takes from one lane only. So the emails of a lane
whose rate is used up need not be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from ..header.address import domain_of
from .token_bucket import Rate

MAX_LANE = 320
"""Characters: a route's name of at most 32, the at sign, and a domain."""

MAX_BUCKET = 320

ALL = "all"
"""The bucket of `OUTBOX_RATE`. The others are "domain:NAME", "server:NAME" and "route:NAME"."""

_DOMAIN = "domain:"

_KNOWN = 10_000
"""The most lanes whose buckets are cached. The lanes' names come from rows of any version."""

AHEAD = 1.0
"""A lane is claimed from this many seconds before its bucket opens, so that a batch stands ready
and waits for its permit. Where the bucket stays closed for longer, emails wait in the table."""

HORIZON = 2.0
"""Seconds' worth of permits that may be claimed at a time. The rest waits in the table."""

Wants = Mapping[str, tuple[Rate, int]]
"""The permits to take, by bucket: the rate at which it refills, and the number of permits."""


def route_of_lane(lane: str) -> str:
    """Return the name of a lane's route."""
    return lane.partition("@")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class PermitCost:
    """What a window costs: it waits for its permits until every bucket of `required` is open.

    The buckets in `charged_anyway` belong to the other domains of emails to several domains. They
    are charged without a wait; else two lanes would have to be open at the same moment. They refill
    sooner than that of the lane's own domain, so they seldom come into debt.
    """

    required: Wants
    charged_anyway: Wants


@dataclass(frozen=True, kw_only=True, eq=False)
class Lanes:
    """Which lane an email waits in, and which buckets a lane draws on.

    `routes` gives the buckets of each route by its name, which has no at sign. A lane's buckets
    follow from its name. So nothing here grows with the number of possible lanes: a thousand
    domains over five routes make five thousand. A lane that the settings no longer name keeps
    those of its limits that are still set. A removed route has the default route's buckets.
    """

    rate: Rate | None = None
    domains: Mapping[str, Rate] = field(default_factory=dict)
    routes: Mapping[str, Mapping[str, Rate]] = field(default_factory=lambda: {"": {}})

    def of(self, route: str, recipients: Sequence[str]) -> str:
        """Return the lane of an email, named by that domain whose permits take longest to refill.

        A domain with many recipients at a higher rate can take longer than one with few at a lower.
        """
        if not self.domains:
            return route
        wanted = Counter(map(domain_of, recipients))
        seconds = {
            domain: permits * self.domains[domain].interval
            for domain, permits in wanted.items()
            if domain in self.domains
        }
        if not seconds:
            return route
        return f"{route}@{min(seconds, key=lambda domain: (-seconds[domain], domain))}"

    def is_limited(self, lane: str) -> bool:
        """Return whether a lane is that of a domain with a rate."""
        return lane.partition("@")[2] in self.domains

    def buckets(self, lane: str) -> Mapping[str, Rate]:
        """Return the buckets that must be open for an email of this lane to go."""
        if (found := self._known.get(lane)) is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[lane] = self._found(lane)
        return found

    @cached_property
    def _known(self) -> dict[str, Mapping[str, Rate]]:
        return {}

    def _found(self, lane: str) -> Mapping[str, Rate]:
        route, _, domain = lane.partition("@")
        found = dict(self.routes.get(route, self.routes.get("", {})))
        if self.rate is not None:
            found[ALL] = self.rate
        if domain in self.domains:
            found[_DOMAIN + domain] = self.domains[domain]
        return found

    @cached_property
    def all_buckets(self) -> Mapping[str, Rate]:
        """Every bucket of every lane."""
        everybody = {} if self.rate is None else {ALL: self.rate}
        found = {_DOMAIN + domain: rate for domain, rate in self.domains.items()} | everybody
        return found | {name: rate for own in self.routes.values() for name, rate in own.items()}

    def share_a_bucket(self, lane: str, other: str) -> bool:
        """Return whether two lanes draw on a common bucket, or are the same lane."""
        return lane == other or not self.buckets(lane).keys().isdisjoint(self.buckets(other))

    def is_closed(self, lane: str, lags: Mapping[str, float]) -> bool:
        """Return whether a bucket of this lane has a lag of more than `AHEAD` seconds."""
        return any(lags.get(name, -inf) > AHEAD for name in self.buckets(lane))

    def max_window(self, lane: str) -> int | None:
        """Return the most permits for one window of this lane; None where nothing limits it."""
        return min((rate.chunk for rate in self.buckets(lane).values()), default=None)

    def max_claimed(self, lane: str) -> int | None:
        """Return the most emails of this lane in one claim; None where nothing limits them."""
        rates = self.buckets(lane).values()
        return min((rate.within(HORIZON) for rate in rates), default=None)

    def cost(self, lane: str, recipients: Sequence[str]) -> PermitCost:
        """Return what it costs to send to these recipients: one permit for each of them."""
        ours = self.buckets(lane)
        counts = {name: len(recipients) for name in ours if not name.startswith(_DOMAIN)}
        rates = dict(ours)
        if self.domains:
            for domain, permits in Counter(map(domain_of, recipients)).items():
                if domain in self.domains:
                    counts[_DOMAIN + domain] = permits
                    rates[_DOMAIN + domain] = self.domains[domain]
        return PermitCost(
            required={name: (rates[name], counts[name]) for name in counts if name in ours},
            charged_anyway={
                name: (rates[name], counts[name]) for name in counts if name not in ours
            },
        )
