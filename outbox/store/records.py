"""What the store hands out: frozen snapshots of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.config.settings import OnUnknown
from ..domain.delivery.blame import Traits
from ..domain.delivery.breaker_rules import BreakerState, Cause
from ..domain.delivery.outcome import Outcome
from ..domain.delivery.status import Status
from ..domain.delivery.transaction import Envelope, Phase, Verdict
from ..domain.header.address import domain_of
from ..domain.priority import Priority
from ..domain.scheduling.lanes import route_of
from ..domain.values import value_type


@dataclass(frozen=True, kw_only=True, slots=True)
class Email:
    """What `enqueue` returns: the email as it stood in the caller's transaction."""

    id: int
    message_id: str
    status: Status
    priority: Priority
    key: str | None
    tag: str | None
    recipients: int
    size: int
    created: bool  # False where the idempotency key found the email that was there already


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claimed batch: the token that stands in the WHERE of every later write."""

    token: UUID
    priority: Priority
    emails: int
    lane: str = ""
    is_probe: bool = False  # it asks whether a server can be used again


@dataclass(frozen=True, slots=True)
class Mark:
    """No email that was seen stands before this place in the index of due emails."""

    due_at: datetime
    id: int


@value_type(frozen=True, kw_only=True, slots=True)
class ClaimedEmail:
    """A claimed email as a send task reads it: all but its content."""

    id: int
    content_id: int
    size: int
    attempts: int
    max_attempts: int | None
    crashes: int
    unknown_count: int
    on_unknown: OnUnknown | None
    several: bool  # its recipients have rows of their own
    waited: float  # seconds: all delays that its own put-offs gave it
    expires_in: float | None  # seconds from the batch's start; None where it does not expire
    envelope: Envelope
    headers: bytes = field(repr=False)
    doubtful: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()  # what has become of its other recipients
    suppressed: frozenset[str] = frozenset()
    merge: str | None = field(default=None, repr=False)  # values, where its content is a template

    @property
    def traits(self) -> Traits:
        """What a server may object to in this email."""
        is_fresh = not (self.waited or self.attempts or self.crashes)
        return Traits.of(self.envelope, self.size, is_fresh=is_fresh)


@dataclass(frozen=True, kw_only=True, slots=True)
class Breaker:
    """A row of the circuit breakers: how a server stands that is suspected or open."""

    server: str
    state: BreakerState
    cause: Cause
    failures: int
    opened_at: datetime
    retry_at: datetime
    alert: bool
    reason: str
    prober: UUID | None  # the lease of the probe under way
    refusal: str | None  # how it refuses every email
    suspect_id: int | None  # the email that was halted last

    @property
    def is_open(self) -> bool:
        """Whether no batch may go over the server."""
        return self.state is not BreakerState.SUSPECTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """A started batch. `began_at` is the database's time at its start."""

    began_at: datetime
    emails: tuple[ClaimedEmail, ...]
    lane: str = ""
    priority: Priority = Priority.NORMAL
    breakers: Mapping[str, Breaker] = field(default_factory=dict)  # those that are not closed
    suspects: Mapping[str, Traits] = field(default_factory=dict)  # the last one, by its server
    ramps: Mapping[str, int] = field(default_factory=dict)  # batches on servers just come back
    probed: str | None = None  # the one of them that this batch is to probe

    @property
    def route(self) -> str:
        """The name of the route that its emails take."""
        return route_of(self.lane)

    @property
    def halted(self) -> frozenset[str]:
        """The servers whose breakers stood open."""
        return frozenset(name for name, breaker in self.breakers.items() if breaker.is_open)


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a worker's write came to, by the ids of emails."""

    opened: frozenset[int] = frozenset()  # they may be sent
    written: frozenset[int] = frozenset()  # results that are in the table now, and were not before
    lost: frozenset[int] = frozenset()  # results that came after their lease was lost
    held: frozenset[int] = frozenset()  # results to be recorded again: another holds the row


@value_type(frozen=True, kw_only=True, slots=True)
class EmailResult:
    """The result of one email's transaction, to be recorded."""

    email_id: int
    outcome: Outcome
    verdict: Verdict
    phase: Phase
    several: bool  # the email has recipients of its own in `outbox_recipient`
    server: str
    started_at: float  # seconds since 1970, by the database's clock
    finished_at: float


def traits_of(row: Any) -> Traits:
    """Return what a server may object to in the email of this row: its sender, recipient, size."""
    domains = frozenset({domain_of(row.recipient)})
    return Traits(sender=row.sender.lower(), domains=domains, size=row.size)
