"""The store's return values: frozen snapshots of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from ..domain.config.settings import OnUnknown
from ..domain.delivery.blame import Traits
from ..domain.delivery.breaker_timing import BreakerState, Cause
from ..domain.delivery.outcome import Outcome
from ..domain.delivery.status import Status
from ..domain.delivery.transaction import Envelope, Phase, Verdict
from ..domain.header.address import domain_of
from ..domain.priority import Priority
from ..domain.scheduling.lanes import route_of_lane
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
    created: bool  # False if the idempotency key belonged to an email that already existed


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claimed batch. Every later write has its token in the WHERE clause."""

    token: UUID
    priority: Priority
    emails: int
    lane: str = ""
    is_probe: bool = False  # it tests whether a server can be used again


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the index of due emails. No email was seen before it."""

    due_at: datetime
    id: int


@value_type(frozen=True, kw_only=True, slots=True)
class ClaimedEmail:
    """A claimed email as a send task reads it, without its content."""

    id: int
    content_id: int
    size: int
    attempts: int
    max_attempts: int | None
    crashes: int
    unknown_count: int
    on_unknown: OnUnknown | None
    several: bool  # its recipients have rows of their own
    waited: float  # seconds: the sum of the delays that the email itself was given
    expires_in: float | None  # seconds from the batch's start; None if it does not expire
    envelope: Envelope
    message_id: str
    headers: bytes = field(repr=False)  # as they are stored
    doubtful: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()  # the statuses of its other recipients
    suppressed: frozenset[str] = frozenset()
    merge: str | None = field(default=None, repr=False)  # as stored: values of a template
    redact: bool = False  # its body goes with the recording of its end
    traceparent: str | None = None  # as stored: the context of the request that wrote it
    lacks_recipients: bool = False  # it is to several, and none of their rows was found

    @property
    def traits(self) -> Traits:
        """The properties of this email that a server may object to."""
        is_fresh = not (self.waited or self.attempts or self.crashes)
        return Traits.of(self.envelope, self.size, is_fresh=is_fresh)


@dataclass(frozen=True, kw_only=True, slots=True)
class Breaker:
    """A row of the circuit breakers: the state of a server that is suspected or halted."""

    server: str
    state: BreakerState
    cause: Cause
    failures: int
    opened_at: datetime
    retry_at: datetime
    alert: bool
    reason: str
    prober: UUID | None  # the lease of the probe under way
    refusal: str | None  # the fingerprint of the reply that refuses every email
    suspect_id: int | None  # the email that was halted last

    @property
    def is_open(self) -> bool:
        """Whether the server may take no batch."""
        return self.state is not BreakerState.SUSPECTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """A started batch. `began_at` is the database's time at its start."""

    began_at: datetime
    emails: tuple[ClaimedEmail, ...]
    lane: str = ""
    priority: Priority = Priority.NORMAL
    breakers: Mapping[str, Breaker] = field(default_factory=dict)  # those that are not closed
    suspects: Mapping[str, Traits] = field(default_factory=dict)  # each server's last suspect
    ramps: Mapping[str, int] = field(default_factory=dict)  # batches allowed after an outage
    probed: str | None = None  # the server that this batch must probe
    erased: frozenset[int] = frozenset()  # emails to one person, and that one was erased
    lacking: tuple[ClaimedEmail, ...] = ()  # they lack recipients: see `without_recipients`

    @property
    def route(self) -> str:
        """The name of the route that its emails take."""
        return route_of_lane(self.lane)

    @property
    def halted_servers(self) -> frozenset[str]:
        """The servers whose breakers were open."""
        return frozenset(name for name, breaker in self.breakers.items() if breaker.is_open)


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteResult:
    """The result of a worker's write, by the ids of emails."""

    opened: frozenset[int] = frozenset()  # they may be sent
    written: frozenset[int] = frozenset()  # results that this write has put into the table
    lost: frozenset[int] = frozenset()  # results whose rows were not found with the token
    locked: frozenset[int] = frozenset()  # results to record again: the row was locked
    left: bool = False  # emails to be given back again: their rows and their lease's were locked

    @property
    def unwritten(self) -> frozenset[int]:
        """The emails whose results are not in the table. They are not known to be unsent.

        A lost one is recorded again, too: a node of a cluster may not have applied its opening yet.
        """
        return self.locked | self.lost


@value_type(frozen=True, kw_only=True, slots=True)
class EmailResult:
    """The result of one email's SMTP transaction, which must be recorded."""

    email_id: int
    outcome: Outcome
    verdict: Verdict
    phase: Phase
    several: bool  # the email has recipients of its own in `outbox_recipient`
    server: str
    started_at: float  # seconds since 1970, by the database's clock
    finished_at: float
    redact: bool = False  # if this is the email's end, its body goes with it
    is_sought: bool = False  # it was lost before: it is recorded again, and not counted again


@dataclass(frozen=True, slots=True)
class WindowChange:
    """The end of one task's window, and the opening of its next one."""

    token: UUID
    results: tuple[EmailResult, ...]
    following: tuple[int, ...]

    @property
    def emails(self) -> frozenset[int]:
        """The ids of all emails that it may change."""
        return frozenset(self.following).union(entry.email_id for entry in self.results)


class Advanced(NamedTuple):
    """What was done of a `WindowChange`, by the ids of emails."""

    opened: frozenset[int]
    missing: frozenset[int]  # their results were not recorded


class ProblemGroup(NamedTuple):
    """Emails that need a person for the same reason; all but their number is of the newest one."""

    id: int
    status: str
    recipient: str
    since: datetime
    attempt: int  # the id of its last attempt; 0: no server has judged it
    phase: str
    code: int
    enhanced: str
    server: str
    reply: str | None  # None: it is to be read
    emails: int
    more_emails: bool  # whether there are more than were looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class Depth:
    """How much is read of each newsletter."""

    counted: int  # with no more emails than this a tag is counted; of a larger one a sample is read
    sample: int  # the emails in a sample
    problems: int  # the last emails that need a person, of whatever tag, among which its own are


class TagFinding(NamedTuple):
    """A number that one statement found of a tag, or the ends of its emails."""

    what: str  # "ends"; of its "newest" emails, of a "sample", or of a "problem", by status;
    # "needy": of how many that need a person, of whatever tag, its own are told
    tag: str
    status: str
    emails: int
    first_at: datetime | None  # of the ends
    last_at: datetime | None


def traits_of(row: Any) -> Traits:
    """Return what a server may object to in this row's email: sender, domain and size."""
    domains = frozenset({domain_of(row.recipient)})
    return Traits(sender=row.sender.lower(), domains=domains, size=row.size)
