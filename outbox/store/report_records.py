"""What the reports hand out: frozen, typed, with times in UTC. Users get them from `Outbox`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..domain.delivery.breaker_rules import BreakerState
from ..domain.delivery.status import Status
from ..domain.priority import Priority


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailSummary:
    """One email of a list."""

    id: int
    status: Status
    priority: Priority
    recipient: str  # the first one
    recipients: int  # how many
    attempts: int  # SMTP attempts with a verdict on the email, since a person last retried it
    tag: str | None
    key: str | None
    created_at: datetime
    due_at: datetime | None  # None where it does not wait
    send_at: datetime | None
    expires_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipientDetails:
    """What has become of one recipient.

    The reply is the server's last one to this recipient, where the email has several; one recipient
    alone has the email's own status, and its replies are the email's attempts.
    """

    address: str
    status: Status | Literal["unsent"]  # unsent: the others were sent to, and this one was left out
    code: int | None = None
    enhanced: str | None = None  # an enhanced status code (RFC 3463)
    reply: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptDetails:
    """One SMTP transaction, as it was recorded."""

    started_at: datetime
    finished_at: datetime
    verdict: str  # a word of the glossary's *verdict*, such as "sent", "retry" or "fail"
    phase: str  # where it was decided, such as "rcpt" or "dot"
    code: int  # 0 where there was no reply
    enhanced: str
    reply: str
    worker: str
    server: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailDetails(EmailSummary):
    """All that is known of one email."""

    subject: str
    message_id: str
    envelope_from: str  # where bounces go; "<>" is nowhere
    size: int  # octets as sent
    crashes: int  # workers that were lost while they had it
    unknown_count: int  # how often it came to be in doubt, while that is unresolved
    recipient_list: tuple[RecipientDetails, ...]
    attempt_list: tuple[AttemptDetails, ...]  # oldest first


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """How one SMTP server stands."""

    server: str  # its name
    configured: bool  # False: it is halted in the table, and this app knows it no more
    state: BreakerState
    failures: int  # in a row
    since: datetime | None  # suspected or halted since then; None where it is neither
    next_probe: datetime | None  # None where it is not halted
    alert: bool  # a person must see to it
    reason: str
    batches_allowed: int | None  # at once, for now, after an outage; None: no limit
    connections: int  # batches in flight on it


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimited:
    """A rate that is used up."""

    bucket: str  # what it counts for: a server, a route or a domain
    opens_in: float  # seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """The outbox's figures."""

    statuses: dict[Status, int]  # how many emails, of every status
    due: dict[Priority, int]  # how many emails are due now, of every priority
    lanes: dict[str, int]  # how many emails are due in each lane; "" is the one without limits
    rate_limited: tuple[RateLimited, ...]
    oldest_due_seconds: float  # for how long the oldest due email has waited; 0: none is due
    batches_in_flight: int
    all_paused: bool
    paused: frozenset[Priority]  # those that were paused by name
    counters: dict[str, int]  # of rare events
    servers: tuple[ServerStatus, ...] = ()
    redirect_to: str | None = None  # OUTBOX_REDIRECT_TO
    suppressed: bool = False  # MAIL_SUPPRESS_SEND is on: nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class Suppression:
    """An address that gets no email."""

    address: str
    reason: str
    created_at: datetime
