"""What a person has just done to a message: the notice above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...domain.delivery.status import Status
from ...flask_ext.management.audit import ActOutcome, outcome_of, why_unchanged
from ...store.report_records import AuditEntry, EmailDetails


@dataclass(frozen=True, kw_only=True)
class Done:
    """The act, and what came of it."""

    act: AuditEntry
    outcome: ActOutcome
    why: str  # nothing was changed, if so
    before: AuditEntry | None  # the act that was faster, if this one came too late
    is_past: bool  # the message has another status by now


def done_by(who: str, email: EmailDetails, acts: Sequence[AuditEntry]) -> Done | None:
    """Return what this person has just done; None if the newest act is not theirs."""
    if not acts or acts[0].who != who:
        return None
    act, outcome = acts[0], outcome_of(acts[0])
    others = acts[1:] if outcome is ActOutcome.UNCHANGED else ()
    return Done(
        act=act,
        outcome=outcome,
        why=why_unchanged(act),
        before=next((one for one in others if outcome_of(one) is not ActOutcome.UNCHANGED), None),
        is_past=act.result in set(Status) - {email.status},
    )
