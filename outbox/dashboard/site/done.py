"""What a person has just done, as the audit says: the notice on the page that follows an act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from flask import request

from ...domain.errors import InvalidMessage
from ...flask_ext.management.audit import ActOutcome, outcome_of, why_unchanged
from ...flask_ext.management.management import Management
from ...store.report_records import AuditEntry
from .site import visitor

LOOKED_AT = 50
"""The newest entries of the audit: an act that has just been done is among them."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """The act, and what came of it."""

    act: AuditEntry
    outcome: ActOutcome
    why: str  # nothing was changed, if so
    before: AuditEntry | None  # the act that was faster, if this one came too late
    is_own: bool  # it was this person's, too
    since: AuditEntry | None  # what another person has done since


def done_by(who: str, acts: Sequence[AuditEntry]) -> Done | None:
    """Return what this person has last done of these acts, the newest first; None: nothing.

    The second click of a double click changes nothing, and its answer is the only one that a
    browser shows. So that tells what the first click has done.
    """
    place = next((i for i, one in enumerate(acts) if one.who == who), None)
    if place is None:
        return None
    act, before = acts[place], None
    if outcome_of(act) is ActOutcome.UNCHANGED:
        before = effective(acts[place + 1 :])
        if before is not None and (before.who, before.action) == (who, act.action):
            act, before = before, None
    return Done(
        act=act,
        outcome=outcome_of(act),
        why=why_unchanged(act),
        before=before,
        is_own=before is not None and before.who == who,
        since=effective(acts[:place]),
    )


def just_done(actions: tuple[str, str], **what: object) -> Done | None:
    """Return what the visitor has just done of two actions; None for a page that follows no act."""
    if "done" not in request.args:
        return None
    newest = Management().audit(limit=LOOKED_AT)
    acts = [one for one in newest if one.action in actions and what.items() <= one.what.items()]
    return done_by(visitor().who, acts)


def since_of_form() -> datetime | None:
    """Return which pause or stop the page of a form has shown. Raises InvalidMessage."""
    given = request.form.get("since")
    try:
        return None if given is None else datetime.fromisoformat(given)
    except ValueError:
        raise InvalidMessage("since", "must be the moment that the page has shown") from None


def effective(acts: Sequence[AuditEntry]) -> AuditEntry | None:
    """Return the newest act that changed something."""
    return next((one for one in acts if outcome_of(one) is ActOutcome.DONE), None)
