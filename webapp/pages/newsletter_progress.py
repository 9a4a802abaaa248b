"""Says how far an issue of the newsletter has come, and why nothing moves where nothing moves."""

from __future__ import annotations

from dataclasses import dataclass

from outbox import BatchDetails, Progress, ServerStatus, Status

from ..extensions import outbox
from ..models import Newsletter
from .formats import counted, grouped
from .statuses import UNFINISHED

UNSENT = (Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED)
"""They ended so because somebody or something had it so: nobody needs to decide."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the page shows. Without its script the page shows the same, as of its loading."""

    total: int
    finished: int
    waiting: int
    underway: int
    sent: int
    in_doubt: int  # ended so, or not
    done: bool
    headline: str
    detail: str
    batches: tuple[BatchDetails, ...]


def report(newsletter: Newsletter) -> Report:
    """Read the outbox, and put what happens into words."""
    found = outbox.progress(newsletter.tag)
    statuses = found.statuses
    waiting = sum(statuses[status] for status in UNFINISHED)
    removed = newsletter.readers - sum(statuses.values())  # by a purge
    headline, detail = _words(found, done=waiting == 0, removed=removed)
    return Report(
        total=newsletter.readers,
        finished=newsletter.readers - waiting,
        waiting=statuses[Status.PENDING],
        underway=statuses[Status.CLAIMED] + statuses[Status.SENDING],
        sent=statuses[Status.SENT],
        in_doubt=found.in_doubt + statuses[Status.UNKNOWN],
        done=waiting == 0,
        headline=headline,
        detail=detail,
        batches=found.batches,
    )


def _words(found: Progress, *, done: bool, removed: int = 0) -> tuple[str, str]:
    if done:
        return _finished(found, removed)
    silent = [batch for batch in found.batches if batch.is_silent]
    if silent:
        return _lost(silent)
    if any(batch.worker for batch in found.batches):
        return _sending(found)
    if found.batches:
        return (
            "No worker has taken the batches yet.",
            "They wait in the broker. If no worker takes them, they go back, and nothing is lost.",
        )
    return _nobody(found)


def _finished(found: Progress, removed: int) -> tuple[str, str]:
    unknown, failed = found.statuses[Status.UNKNOWN], found.statuses[Status.FAILED]
    told = [f"{grouped(found.statuses[one])} {one}" for one in UNSENT if found.statuses[one]]
    if removed > 0:
        told.append(f"{grouped(removed)} removed after they had ended")
    words = [", ".join(told[:-1]) + " and " * (len(told) > 1) + told[-1] + "."] if told else []
    if unknown or failed:
        words.append(f"{grouped(unknown)} unknown and {grouped(failed)} failed: a person decides.")
    return "All finished.", " ".join(words) or "Every email of this issue is sent."


def _lost(silent: list[BatchDetails]) -> tuple[str, str]:
    emails, sending = sum(b.emails for b in silent), sum(b.sending for b in silent)
    rescue = max(batch.rescue_seconds for batch in silent)
    told = [
        f"It held {counted(emails, 'email')} of this issue.",
        _doubt(sending),
        _unsent(emails - sending),
        f"A sweep rescues them in {rescue:.0f} s at the latest.",
    ]
    if any(batch.lease_seconds > 0 for batch in silent):
        told.append("Their slot is free for other emails as soon as the lease has run out.")
    return "A worker has gone silent: it no longer renews its lease.", " ".join(filter(None, told))


def _doubt(sending: int) -> str:
    if not sending:
        return "None was in an open window."
    were = "was" if sending == 1 else "were"
    return f"{grouped(sending)} {were} in an open window and may have left: that is the doubt."


def _unsent(emails: int) -> str:
    return f"{grouped(emails)} had surely not left." if emails else ""


def _sending(found: Progress) -> tuple[str, str]:
    sending, batches = sum(batch.sending for batch in found.batches), len(found.batches)
    return (
        f"{counted(batches, 'batch is', 'batches are')} under way.",
        f"Only the {grouped(sending)} in open windows could come into doubt now.",
    )


def _nobody(found: Progress) -> tuple[str, str]:
    """Say why no batch is in flight although emails wait."""
    stats = outbox.stats()
    if stats.all_paused or stats.paused:
        return "Sending is paused.", "It goes on after: flask outbox resume"
    halted = [server for server in stats.servers if server.next_probe is not None]
    if halted:
        return _halted(halted[0])
    if found.next_due_seconds:
        doubt = f"{counted(found.in_doubt, 'is', 'are')} in doubt. " if found.in_doubt else ""
        return (
            "The rest waits for its turn.",
            f"{doubt}The next one is tried in {found.next_due_seconds:.0f} s.",
        )
    return "Emails wait for the next sweep.", "Beat sweeps every second, if it runs."


def _halted(server: ServerStatus) -> tuple[str, str]:
    return (
        "The SMTP server takes nothing.",
        f"It was tried {counted(server.failures, 'time')}. One probe asks it again and again."
        " No email is charged for the outage.",
    )
