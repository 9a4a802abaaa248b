"""The life of a message, from its enqueue on: what happened, and what is awaited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ...domain.counted import counted
from ...domain.delivery.status import FINISHED, Status
from ...domain.delivery.transaction import Verdict
from ...flask_ext.management.management import Management
from ...flask_ext.management.source import ACTS
from ...store.report_records import AttemptDetails, AuditEntry, EmailDetails

Tone = Literal["plain", "good", "bad", "doubt", "act"]
"""How an event looks; its words say the same."""

_TOLD: dict[str, tuple[str, Tone]] = {
    Verdict.SENT: ("Accepted", "good"),
    Verdict.RETRY: ("Put off", "plain"),
    Verdict.FAIL: ("Refused", "bad"),
    Verdict.UNKNOWN: ("In doubt: no reply to the final dot", "doubt"),
    Verdict.HALT: ("No session with the server", "plain"),
    Verdict.SUSPECT: ("The server halted", "plain"),
    Verdict.LACKING: ("The server lacks what the message needs", "plain"),
    Verdict.UNSENT: ("Not sent: the connection was lost before the final dot", "plain"),
}
_ENDS: dict[Status, tuple[str, Tone]] = {
    Status.SENT: ("Sent", "good"),
    Status.FAILED: ("Failed: it is not sent again", "bad"),
    Status.UNKNOWN: ("Unknown: it may have arrived, and a person decides", "doubt"),
    Status.CANCELLED: ("Cancelled before it was sent", "plain"),
    Status.EXPIRED: ("Expired before it was sent", "plain"),
    Status.SUPPRESSED: ("Suppressed: its recipients are on the list", "plain"),
}


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to the message."""

    at: datetime
    title: str
    tone: Tone = "plain"
    reply: str = ""  # the server's own words
    notes: tuple[str, ...] = ()


def newest_acts(email_id: int) -> tuple[AuditEntry, ...]:
    """Return what people did to a message, the newest first: one more than is shown, if any."""
    return Management().audit(email=email_id, limit=ACTS + 1)


def life_of(email: EmailDetails, entries: Sequence[AuditEntry]) -> list[Event]:
    """Return the events, oldest first."""
    events = [
        _enqueued(email),
        *map(_attempt, email.attempt_list),
        *map(_act, entries),
        *_end(email),
        *_redacted(email),
    ]
    return sorted(events, key=lambda event: event.at)


def _enqueued(email: EmailDetails) -> Event:
    notes = [f"priority {email.priority.name.lower()}", counted(email.recipients, "recipient")]
    if email.send_at is not None:
        notes.append(f"to be sent from {email.send_at:%d %b %Y, %H:%M:%S} UTC on")
    if email.expires_at is not None:
        notes.append(f"expires {email.expires_at:%d %b %Y, %H:%M:%S} UTC")
    return Event(at=email.created_at, title="Enqueued", notes=tuple(notes))


def _attempt(attempt: AttemptDetails) -> Event:
    title, tone = _TOLD.get(attempt.verdict, (attempt.verdict.capitalize(), "plain"))
    if attempt.verdict == Verdict.SUSPECT and not attempt.server:  # such as a missing key
        title = "Put off, before a server was asked"
    code = str(attempt.code) if attempt.code else ""
    reply = " ".join(filter(None, (code, attempt.enhanced, attempt.reply)))
    took = (attempt.finished_at - attempt.started_at).total_seconds()
    notes = (
        *([f"server {attempt.server}"] if attempt.server else []),
        f"at {attempt.phase}",
        f"after {took:.2f} s",
        f"worker {attempt.worker}",
    )
    return Event(at=attempt.finished_at, title=title, tone=tone, reply=reply, notes=notes)


def _act(entry: AuditEntry) -> Event:
    title = f"{entry.who}: {entry.action}"
    return Event(at=entry.at, title=title, tone="act", notes=(entry.result,))


def _redacted(email: EmailDetails) -> Iterator[Event]:
    if email.redacted_at is not None:
        yield Event(at=email.redacted_at, title="Its body was removed")


def _end(email: EmailDetails) -> Iterator[Event]:
    """Yield how it ended: never before its last attempt, which another clock may have timed.

    One in doubt has ended when its last attempt did.
    """
    last = max((a.finished_at for a in email.attempt_list), default=email.created_at)
    if email.status in FINISHED and email.finished_at is not None:
        title, tone = _ENDS[email.status]
        yield Event(at=max(last, email.finished_at), title=title, tone=tone)
    elif email.status is Status.UNKNOWN:
        title, tone = _ENDS[email.status]
        yield Event(at=last, title=title, tone=tone)
