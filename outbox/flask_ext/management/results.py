"""The results of the verbs: frozen and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ...domain.delivery.status import Status
from ...domain.fleet import WorkerState
from ...store.report_records import ServerStatus


class Reason(StrEnum):
    """Why an email was left as it is."""

    MISSING = "no such email"
    LOCKED = "another transaction holds it"  # try again when that transaction has ended
    ALREADY = "it has that status already"
    STATUS = "its status does not allow it"
    REDACTED = "its body was removed"  # nothing is left that could be sent
    EXPIRED = "its expires_at has passed"  # a sweep would end it, and it would be sent to nobody
    ANEW = "it has changed since"  # a page of the dashboard shows how it had ended before
    COPIED = "it was sent again since"  # as a new message; a page does not show that


@dataclass(frozen=True, kw_only=True, slots=True)
class Unchanged:
    """An email that was left as it is."""

    id: int
    reason: Reason
    status: Status | None = None  # None if it is missing, or another transaction holds it

    def __str__(self) -> str:
        """Return the reason in words, without the id."""
        match self.reason:
            case Reason.ALREADY:
                return f"is {self.status} already"
            case Reason.STATUS:
                return f"is {self.status}"
            case Reason.REDACTED:
                return "has no body any more"
            case Reason.EXPIRED:
                return "is past its expires_at; send it again as a new message"
            case Reason.ANEW:
                return f"has changed since your page was made, and is {self.status} now"
            case Reason.COPIED:
                return "was sent again as a new one since your page was made"
        return self.reason.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrections:
    """What `retry` and `resolve` have done."""

    changed: dict[int, Status]  # by id: the status that an email has now
    unchanged: tuple[Unchanged, ...]
    unknown: tuple[int, ...] = ()  # retried, though a copy may have arrived already

    @property
    def locked(self) -> tuple[int, ...]:
        """The ids of emails that another transaction holds."""
        return self._left(Reason.LOCKED)

    @property
    def redacted(self) -> tuple[int, ...]:
        """The ids of emails whose body was removed, so that they cannot be sent again."""
        return self._left(Reason.REDACTED)

    @property
    def expired(self) -> tuple[int, ...]:
        """The ids of emails past their `expires_at`: `send_again` sends one as a new message."""
        return self._left(Reason.EXPIRED)

    def _left(self, reason: Reason) -> tuple[int, ...]:
        return tuple(one.id for one in self.unchanged if one.reason is reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suppressions:
    """What `suppress_many` has done."""

    added: int
    known: int  # addresses that were on the list already, or were given twice
    wrong: Mapping[int, str]  # by the place in the list: which rule it breaks


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether emails leave. Where the database is away only `limit` and `problems` are known."""

    healthy: bool
    limit: float  # seconds that an email may be due or claimed
    problems: tuple[str, ...]  # what is wrong, and the remedy
    oldest_due_seconds: float | None = None
    oldest_claimed_seconds: float | None = None
    due: int | None = None  # how many emails are due; at most 10,000 are counted of each kind
    claimed: int | None = None  # how many a worker has, or should have
    stuck: int | None = None  # how many have been due, or claimed, for longer than the limit
    beat_seconds: float | None = None  # since a task of beat was seen; None: there never was one
    alerts: tuple[ServerStatus, ...] = ()  # servers that need a person
    servers: tuple[ServerStatus, ...] = ()
    warnings: tuple[str, ...] = ()  # what keeps no email back yet, and the remedy
    crashing: tuple[int, ...] = ()  # ids of emails that were with several lost workers


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerDetails:
    """A worker, or a beat, as it wrote itself down last."""

    name: str  # Celery's name of it
    host: str
    pid: int  # of its parent process
    state: WorkerState
    pool: str  # "beat" for a beat
    concurrency: int  # tasks that it runs at once, at most
    queues: tuple[str, ...]
    tasks: int  # that it ran at its last renewal
    version: str
    started_at: datetime
    seen_at: datetime  # it is seen every ten seconds
    seen_seconds: float
    stopped_at: datetime | None  # when it was asked to stop
    differing: tuple[str, ...]  # its settings that differ from this process's
    is_missed: bool  # it is dead, and no later one has taken its place


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The workers of the outbox that were seen within a day, and what is wrong with them."""

    slots: int  # batches that may be in flight now
    workers: tuple[WorkerDetails, ...]  # the one that was seen last first
    beats: tuple[WorkerDetails, ...]
    beat_seconds: float | None  # since a task of beat was seen; None: there never was one
    task_seconds: float | None  # since a worker took a task of ours; None: none ever did
    is_still: bool  # that is longer ago than beat lets it be
    unheard: dict[str, float | None]
    """The outbox's queues to which no living worker listens, with the seconds since one did. It is
    empty where no worker is known at all: workers of older versions write nothing down."""
    problems: tuple[str, ...]  # what is wrong, and the remedy

    @property
    def living(self) -> tuple[WorkerDetails, ...]:
        """The workers that take tasks, as far as it is known."""
        return tuple(one for one in self.workers if one.state.is_living)
