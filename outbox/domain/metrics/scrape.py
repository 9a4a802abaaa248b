"""What the tables tell at one moment, for the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..delivery.breaker_timing import BreakerState
from ..fleet import LastBeat

CAME_INTO_DOUBT: Final = "came_into_doubt"
"""The event that an email came into doubt, as `stats` names it, too."""

EVENTS: Final = (CAME_INTO_DOUBT, "lease_lost", "leases_rescued", "stale_tasks")
"""The rare events. Each has a sample from the start: a monitor cannot tell how far a counter has
risen that begins at 1."""


class Counted(NamedTuple):
    """So many attempts since the tables were made. A number falls only with a restored backup."""

    server: str
    route: str
    priority: int
    verdict: str
    bin: int  # of the histogram; -1 if the email was not accepted
    attempts: int


class Halt(NamedTuple):
    """A server whose breaker is not closed."""

    server: str
    state: BreakerState
    alert: bool  # a person must see to it


@dataclass(frozen=True, kw_only=True, slots=True)
class Scrape:
    """What one statement has read."""

    attempts: tuple[Counted, ...]
    emails: Mapping[str, int]  # by state: due, scheduled, claimed, sending, attention; each bounded
    oldest_due: Mapping[int, float]  # seconds, by priority
    oldest_claimed: Mapping[int, float]  # seconds, by priority
    halts: tuple[Halt, ...]
    paused: tuple[str, ...]  # scopes
    beat_seconds: float | None  # None: a task of beat was never seen
    events: Mapping[str, int]  # counters of rare events
    workers: tuple[LastBeat, ...]  # and beats
