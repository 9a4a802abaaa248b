"""The reports' return values: frozen and typed, with times in UTC. `Outbox` returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..domain.delivery.breaker_timing import BreakerState
from ..domain.delivery.status import Status
from ..domain.jobs.order import Action, JobState
from ..domain.priority import Priority


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailSummary:
    """One email in a list."""

    id: int
    status: Status
    priority: Priority
    recipient: str  # the first one
    recipients: int  # how many
    attempts: int  # SMTP attempts with a verdict on the email, since a person last retried it
    tag: str | None
    key: str | None
    created_at: datetime
    due_at: datetime | None  # None if it does not wait
    send_at: datetime | None
    expires_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailPage:
    """The emails of a page, newest first.

    A page reads a bounded number of rows. If its filters fit few of them, it may have fewer emails
    than were asked for, and still a next page.
    """

    emails: tuple[EmailSummary, ...]
    next: str | None  # give it as `after` for the next page; None: there is none

    def __iter__(self) -> Iterator[EmailSummary]:
        """Return an iterator over the emails."""
        return iter(self.emails)

    def __len__(self) -> int:
        """Return how many emails the page has."""
        return len(self.emails)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipientDetails:
    """The status of one recipient.

    If the email has several recipients, the reply is the server's last one to this recipient. An
    only recipient has the email's own status, and the replies are the email's attempts.
    """

    address: str
    status: Status | Literal["unsent"]  # unsent: left out, although others were sent to
    code: int | None = None
    enhanced: str | None = None  # an enhanced status code (RFC 3463)
    reply: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptDetails:
    """One recorded SMTP transaction."""

    started_at: datetime
    finished_at: datetime
    verdict: str  # a word of the glossary's *verdict*, such as "sent", "retry" or "fail"
    phase: str  # the step that decided it, such as "rcpt" or "dot"
    code: int  # 0 if there was no reply
    enhanced: str
    reply: str
    worker: str
    server: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailDetails(EmailSummary):
    """All that is known of one email."""

    subject: str
    message_id: str
    envelope_from: str  # the address for bounces; "<>": bounces go nowhere
    size: int  # octets as sent
    crashes: int  # workers that were lost while they had it
    unknown_count: int  # how often its result was unknown, until that is resolved
    recipient_list: tuple[RecipientDetails, ...]
    attempt_list: tuple[AttemptDetails, ...]  # oldest first
    waits: tuple[str, ...] = ()  # why it is not sent yet, in words; empty once it has ended
    redacted_at: datetime | None = None  # when its body was removed, and its subject with it
    trace_id: str | None = None  # OpenTelemetry's, of the request that enqueued it: 32 hex digits


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The state of one SMTP server."""

    server: str  # its name
    configured: bool  # False: the table has it as halted, but this app no longer configures it
    state: BreakerState
    failures: int  # in a row
    since: datetime | None  # suspected or halted since then; None if it is neither
    next_probe: datetime | None  # None if it is not halted
    alert: bool  # a person must see to it
    reason: str
    batches_allowed: int | None  # at the same time, for a while after an outage; None: no limit
    connections: int  # batches in flight on it


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimited:
    """A rate that is used up."""

    bucket: str  # whose rate it is: a server's, a route's or a domain's
    opens_in: float  # seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """The outbox's figures."""

    statuses: dict[Status, int]  # how many emails, of every status
    due: dict[Priority, int]  # how many emails are due now, of every priority
    lanes: dict[str, int]  # how many emails are due in each lane; "" is the lane without limits
    rate_limited: tuple[RateLimited, ...]
    oldest_due_seconds: float  # how long the oldest due email has waited; 0 if no email is due
    batches_in_flight: int
    all_paused: bool
    paused: frozenset[Priority]  # priorities that were paused by name
    counters: dict[str, int]  # rare events since the tables were made, such as came_into_doubt
    servers: tuple[ServerStatus, ...] = ()
    redirect_to: str | None = None  # OUTBOX_REDIRECT_TO
    suppressed: bool = False  # MAIL_SUPPRESS_SEND is on: nothing is sent


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What has not ended, and what needs a person.

    Each number is at most 10,000: that stands for so many or more. `failed` and `unknown` are
    counted among the 10,000 emails that came to need a person last.
    """

    due: int  # wait, and may be sent now
    scheduled: int  # wait for a later time: their `send_at`, or a backoff
    claimed: int  # a worker has them, and has not begun to send them
    sending: int  # in open windows
    failed: int
    unknown: int
    oldest_due_seconds: float  # how long the oldest due email has waited; 0 if no email is due


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchDetails:
    """A batch in flight: emails that one send task has claimed, and the lease that it must renew.

    A worker renews its lease after each third of `OUTBOX_LEASE`. If it is lost, a sweep rescues its
    emails: those that were `sending` are then in doubt, and all others wait again.
    """

    priority: Priority
    lane: str  # "" is the lane without limits
    emails: int  # of those asked for, how many have no recorded result
    sending: int  # how many of these are in the open window
    worker: str | None  # host and process id; None: no task has started the batch
    server: str | None  # whose connection cap it counts against
    claimed_at: datetime
    started_at: datetime | None
    lease_seconds: float  # until the lease runs out; negative after that
    rescue_seconds: float  # until a sweep rescues its emails, if the lease is never renewed again
    is_silent: bool  # a renewal is late: the worker is lost, or cannot reach the database
    awaits_reply: bool  # its content has left, and only the server's reply is waited for


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far the emails of a tag have come, or all emails."""

    statuses: dict[Status, int]  # how many emails, of every status
    in_doubt: int  # how many are in doubt now; those that ended so are `unknown`
    next_due_seconds: float | None  # until the first waiting email is due; None: none waits
    batches: tuple[BatchDetails, ...]  # that have some of the emails, the oldest claim first


@dataclass(frozen=True, kw_only=True, slots=True)
class Suppression:
    """An address that gets no email."""

    address: str
    reason: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry:
    """What a person did by hand."""

    id: int
    at: datetime
    who: str
    action: str  # a word such as "retry", "resolve" or "suppress"
    email_id: int | None  # of an action on one email
    what: Mapping[str, Any]  # ids, a filter or a scope; neither addresses nor contents
    result: str  # in words


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """What a person has stopped: everything, or one priority."""

    scope: str  # "all", or the name of a priority in lower case
    paused_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Failed or unknown emails whose last attempts have ended alike."""

    status: Status  # failed or unknown
    phase: str  # the step that decided the last attempt; empty if there was none
    code: int  # 0 if there was no reply
    enhanced: str
    server: str
    domain: str  # of the first recipient
    emails: int  # how many
    id: int  # of the newest of them
    since: datetime  # when the newest came to need a person
    reply: str  # the newest text of the server


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedContents:
    """A server that refuses many emails for their contents just now."""

    server: str
    code: int
    enhanced: str
    failed: int  # emails that failed so in the last quarter of an hour, up to 1,000
    waiting: int  # emails that wait for it, up to 10,000; 0 unless it is halted
    is_halted: bool  # for this: emails wait, and none of them is charged


@dataclass(frozen=True, kw_only=True, slots=True)
class Problems:
    """What needs a person, that with the newest email first."""

    groups: tuple[Problem, ...]
    emails: int  # how many were looked at: the newest
    more_emails: bool  # there are older ones that were not looked at
    more_groups: bool  # there are groups that were not asked for
    contents: tuple[RefusedContents, ...] = ()  # servers that refuse many just now


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """An action on all emails that a filter finds, and how far it is."""

    id: int
    action: Action
    filters: Mapping[str, str | None]  # None: it may name a person, and is not kept any more
    state: JobState
    who: str | None  # None: nobody gave a name
    emails: int  # that were found at its start, counted up to 10,000
    more: bool  # whether there may have been more
    changed: int
    unchanged: int  # that were found, and could not be changed
    share: float | None  # from 0.0 to 1.0, about how far it is; None: unknown
    reason: str  # why it does not run, where no person stopped it
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
