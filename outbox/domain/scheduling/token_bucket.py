"""Rates, and the arithmetic of the buckets that count their permits. Pure.

This is the generic cell rate algorithm (ITU-T I.371). A bucket is a single moment: the one at which
all permits taken so far are used up at an even pace. Here that moment is expressed as the bucket's
*lag*: the seconds from now to that moment, negative where it is past.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from types import MappingProxyType
from typing import Any

from ..errors import ConfigurationError, InvalidMessage
from ..header.address import MAX_RECIPIENTS, check_address, domain_of

SLACK = 0.25
"""Seconds' worth of permits that an idle bucket saves: a worker that wakes this late loses none."""

MARGIN = 0.1
"""Seconds by which non-urgent email waits longer, so that urgent email is first at each opening."""

LONGEST = 3650 * 86_400.0
"""The longest lag in seconds: ten years. Databases and Python bound how far a moment can be."""

_CHUNK = 0.2
_UNITS = {"s": 1, "min": 60, "h": 3600, "day": 86_400}
_RATE = re.compile(r"\s*([0-9]{1,9})\s*/\s*(s|min|h|day)\s*")


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of permits in a number of seconds, spread evenly.

    A permit is the right to send one email to one recipient.
    """

    permits: float
    seconds: float

    @property
    def interval(self) -> float:
        """Seconds from one permit to the next."""
        return self.seconds / self.permits

    @property
    def chunk(self) -> int:
        """The most permits that one window should take, so that many windows make an even pace."""
        return self.within(_CHUNK)

    def within(self, seconds: float) -> int:
        """Return how many permits these seconds bring, at least one."""
        # A rate of 5/s brings 1 in 0.2 s, and not 0.99….
        return max(1, int(seconds / self.interval + 1e-9))

    def part(self, share: float) -> Rate:
        """Return this share of the rate."""
        return Rate(self.permits * share, self.seconds)


def wait(lag: float, margin: float = 0.0) -> float:
    """Return the seconds until a bucket opens, `margin` after its lag; 0 where it is open."""
    return max(0.0, lag + margin)


def lag(tat: datetime, taken_at: datetime | None, now: datetime, *, most: float = inf) -> float:
    """Return the seconds until a bucket's permits are used up.

    If the last take lies in the future, the clock was ahead then. The lag counts from that take, so
    the bucket owes now what it owed then. So a bucket stays closed for as long as the permits taken
    from it last, and never longer. After its last take it owed `most` seconds at the most.
    """
    if taken_at is None:
        return (tat - now).total_seconds()
    owed = min(most, (tat - taken_at).total_seconds())
    return owed - max(0.0, (now - taken_at).total_seconds())


def max_debt(rate: Rate) -> float:
    """Return the most seconds for which one take closes a bucket of this rate.

    A bucket that owes more was taken from at a slower rate, which somebody has raised since. How
    many permits those were, nobody knows. It may also owe more where it was charged without a wait.
    That is forgiven, too, because nobody can tell the one from the other.
    """
    return min(LONGEST, MAX_RECIPIENTS * rate.interval)


def lag_after(lag: float, rate: Rate, permits: int) -> float:
    """Return the lag of an open bucket after these permits were taken.

    Any number may be taken from an open bucket. So one email to a thousand recipients fits every
    rate, and the emails that follow wait until the debt is paid off.
    """
    return min(LONGEST, max(lag, -SLACK) + permits * rate.interval)


def read_rate(key: str, value: Any) -> Rate | None:
    """Read a rate such as "500/min", or raise ConfigurationError; an empty value is None."""
    if value is None or value == "":
        return None
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise ConfigurationError(
            f'{key} must be a number per time unit, such as "500/min"; units: {", ".join(_UNITS)}'
        )
    return Rate(int(found[1]), _UNITS[found[2]])


def read_domain_rates(key: str, value: Any) -> Mapping[str, Rate] | None:
    """Read rates by recipient domain, or raise ConfigurationError.

    The domains come out in ASCII (IDNA) and lower case.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigurationError(f'{key} must be a dict, such as {{"gmail.com": "20/s"}}')
    rates: dict[str, Rate] = {}
    for name, text in value.items():
        domain, rate = _domain(key, name), read_rate(f"{key}[{name!r}]", text)
        if rate is None:
            raise ConfigurationError(f"{key}[{name!r}] must not be empty")
        if domain in rates:
            raise ConfigurationError(f"{key} names the domain {domain} twice")
        rates[domain] = rate
    return MappingProxyType(rates)


def _domain(key: str, name: Any) -> str:
    try:
        if isinstance(name, str):
            return domain_of(check_address(f"x@{name}", key))
    except InvalidMessage:
        pass
    raise ConfigurationError(f"{key}: {name!r} is not a domain name")
