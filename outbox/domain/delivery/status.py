"""The states of an email and every legal step between them.

This table is the only one: the database's constraints, the documentation's table and the tests are
made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Stored in `outbox_email.status` as these words."""

    PENDING = "pending"  # waits for its due time
    CLAIMED = "claimed"  # leased to one send task, known to be unsent
    SENDING = "sending"  # its window is open: an email can come to be in doubt only here
    SENT = "sent"  # the server took it for at least one recipient
    FAILED = "failed"  # no recipient was accepted, and it is not sent again
    UNKNOWN = "unknown"  # it may have gone out, and nobody can know: a person decides
    CANCELLED = "cancelled"  # withdrawn before it was sent
    EXPIRED = "expired"  # its time ran out before it was sent
    SUPPRESSED = "suppressed"  # every recipient is on the suppression list


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """One legal transition: from, to, when it happens, and which files make it."""

    source: Status
    target: Status
    when: str
    files: tuple[str, ...]  # of `outbox/store/transitions`


def _arrows(source: Status, *targets: tuple[Status, str, str]) -> tuple[Arrow, ...]:
    return tuple(
        Arrow(source=source, target=target, when=when, files=tuple(files.split()))
        for target, files, when in targets
    )


ARROWS: tuple[Arrow, ...] = (
    *_arrows(
        Status.PENDING,
        (Status.CLAIMED, "claim claim_apart claim_whole", "a sweep claims it: token and lease"),
        (Status.CANCELLED, "cancel", "withdrawn"),
        (Status.EXPIRED, "expire", "`expires_at` passed"),
        (
            Status.SENT,
            "late_verdict cancel expire",
            "a late verdict resolves its doubt; withdrawn or expired after part was sent",
        ),
        (Status.UNKNOWN, "cancel expire", "withdrawn or expired while in doubt"),
    ),
    *_arrows(
        Status.CLAIMED,
        (Status.SENDING, "window", "its window opens"),
        (
            Status.PENDING,
            "release rescue",
            "given back, no attempt charged: halt, shutdown, another lane, or its lease ran out"
            " (a crash, if its task had started)",
        ),
        (Status.CANCELLED, "cancel", "withdrawn while waiting"),
        (Status.EXPIRED, "release", "expired while waiting"),
        (Status.SUPPRESSED, "release", "all recipients were suppressed while waiting"),
        (
            Status.FAILED,
            "rescue release",
            "its worker died too often with this email alone; or, of several recipients, some were"
            " refused and the rest are suppressed",
        ),
        (
            Status.SENT,
            "cancel release rescue",
            "withdrawn, expired or given up after a part of it was sent",
        ),
        (
            Status.UNKNOWN,
            "cancel release rescue",
            "withdrawn, expired, suppressed or given up while in doubt",
        ),
    ),
    *_arrows(
        Status.SENDING,
        (Status.SENT, "record", "2xx after the final dot"),
        (
            Status.PENDING,
            "record release rescue",
            "4xx or doubt, an attempt charged; halted or dropped before the final dot, no attempt"
            " charged",
        ),
        (
            Status.CLAIMED,
            "record",
            "its window closed by time before its turn: known to be unsent",
        ),
        (Status.FAILED, "record", "5xx for all, or attempts, lifetime or crashes used up"),
        (
            Status.UNKNOWN,
            "record rescue",
            "in doubt under `hold`, for the third time, or with no way left to settle",
        ),
    ),
    *_arrows(
        Status.UNKNOWN,
        (Status.SENT, "resolve late_verdict", "a person, or a late verdict, says it arrived"),
        (
            Status.PENDING,
            "retry resolve late_verdict",
            "a person retries it; or the doubt is settled, and other recipients still wait",
        ),
        (Status.FAILED, "resolve", "a person says it did not arrive"),
    ),
    *_arrows(
        Status.FAILED,
        (
            Status.PENDING,
            "retry uncharge",
            "a person retries it; or its server was refusing every email alike",
        ),
    ),
)

LEASED = frozenset({Status.CLAIMED, Status.SENDING})
"""The statuses in which a row carries a token."""

FINISHED = frozenset(
    {Status.SENT, Status.FAILED, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED}
)
"""What `purge` may remove. `unknown` waits for a person and is never removed."""

NEEDS_PERSON = frozenset({Status.FAILED, Status.UNKNOWN})
"""What a person must look at: `retry` sends it as it is, and `resolve` settles a doubt."""


def sources(target: Status) -> tuple[Status, ...]:
    """Return the statuses from which `target` may be reached, for a statement's WHERE."""
    return tuple(arrow.source for arrow in ARROWS if arrow.target is target)


def end_status(target: Status, *, in_doubt: bool, has_copy: bool) -> Status:
    """Return the status in which an email ends that should end as `target`: it never lies.

    An email with unresolved doubt ends `unknown`. Of the others, one ends `sent` if a recipient
    already has a copy.
    """
    if in_doubt:
        return Status.UNKNOWN
    return Status.SENT if has_copy else target
