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
    SENDING = "sending"  # its window is open: only here can an email come to be in doubt
    SENT = "sent"  # the server took it for at least one recipient
    FAILED = "failed"  # nobody took it, and nobody will
    UNKNOWN = "unknown"  # it may have gone out, nobody can know; a person decides
    CANCELLED = "cancelled"  # withdrawn before it was sent
    EXPIRED = "expired"  # its time ran out before it was sent
    SUPPRESSED = "suppressed"  # every recipient is on the suppression list


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """One legal transition: from, to, and when it happens."""

    source: Status
    target: Status
    when: str


def _arrows(source: Status, *targets: tuple[Status, str]) -> tuple[Arrow, ...]:
    return tuple(Arrow(source=source, target=target, when=when) for target, when in targets)


ARROWS: tuple[Arrow, ...] = (
    *_arrows(
        Status.PENDING,
        (Status.CLAIMED, "a sweep claims it: token and lease"),
        (Status.CANCELLED, "withdrawn"),
        (Status.EXPIRED, "`expires_at` passed"),
        (Status.SUPPRESSED, "all recipients are suppressed"),
        (
            Status.SENT,
            "a late verdict resolves its doubt; withdrawn or expired after part was sent",
        ),
        (Status.UNKNOWN, "withdrawn, expired or suppressed while in doubt"),
    ),
    *_arrows(
        Status.CLAIMED,
        (Status.SENDING, "its window opens"),
        (Status.PENDING, "given back, uncharged: halt, shutdown, or the lease was lost"),
        (Status.CANCELLED, "withdrawn while waiting"),
        (Status.EXPIRED, "expired while waiting"),
        (Status.SUPPRESSED, "all recipients were suppressed while waiting"),
        (
            Status.FAILED,
            "its worker died too often with this email alone; or, of several recipients, some were"
            " refused and the rest are suppressed",
        ),
        (Status.SENT, "withdrawn, expired or given up after a part of it was sent"),
        (Status.UNKNOWN, "withdrawn, expired, suppressed or given up while in doubt"),
    ),
    *_arrows(
        Status.SENDING,
        (Status.SENT, "2xx after the final dot"),
        (Status.PENDING, "4xx or doubt, charged; halt or lost before the final dot, uncharged"),
        (Status.CLAIMED, "its window closed by time before its turn: known to be unsent"),
        (Status.FAILED, "5xx for all, or attempts, lifetime or crashes used up"),
        (
            Status.UNKNOWN,
            "in doubt under `hold`, for the third time, or with no way left to settle",
        ),
    ),
    *_arrows(
        Status.UNKNOWN,
        (Status.SENT, "a person, or a late verdict, says it arrived"),
        (Status.PENDING, "a person sends it again"),
        (Status.FAILED, "a person says it did not arrive"),
    ),
    *_arrows(
        Status.FAILED,
        (Status.PENDING, "a person retries it; or its server was refusing every email alike"),
    ),
)

TRANSITIONS: dict[Status, frozenset[Status]] = {
    status: frozenset(arrow.target for arrow in ARROWS if arrow.source is status)
    for status in Status
}

LEASED = frozenset({Status.CLAIMED, Status.SENDING})
"""The statuses in which a row carries a token."""

FINISHED = frozenset(
    {Status.SENT, Status.FAILED, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED}
)
"""What `purge` may remove. `unknown` waits for a person and is never removed."""


def sources(target: Status) -> tuple[Status, ...]:
    """Return the statuses from which `target` may be reached, for a statement's WHERE."""
    return tuple(arrow.source for arrow in ARROWS if arrow.target is target)


def settle(target: Status, *, in_doubt: bool) -> Status:
    """Return where an email ends that is to end as `target`.

    An email with unresolved doubt ends only `sent` or `unknown`: the status never lies.
    """
    return Status.UNKNOWN if in_doubt and target is not Status.SENT else target
