"""What a plan of claims is made from, and the requests that it consists of. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..priority import Priority

AGED = 60.0
"""Seconds of waiting after which an email goes beside more urgent ones: it need not wait on."""

LaneKey = tuple[str, Priority]
"""A lane and a priority, in short a *way*. One claim takes emails of one way."""


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
    """Further batches that take no slot, but a place on their server."""


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
