"""What can be done to all messages that a search finds, by their status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...domain.delivery.status import Status
from ...domain.jobs.order import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A link to a dry run."""

    label: str
    values: Mapping[str, str]  # of its address


_EACH: dict[str, tuple[tuple[str, Action, Status | None], ...]] = {
    "": (
        ("Retry the failed ones", Action.RETRY, Status.FAILED),
        ("Withdraw those that wait", Action.CANCEL, None),
    ),
    Status.FAILED: (("Retry them", Action.RETRY, Status.FAILED),),
    Status.UNKNOWN: (
        ("Resolve them as sent", Action.AS_SENT, Status.UNKNOWN),
        ("Resolve them as failed", Action.AS_FAILED, Status.UNKNOWN),
        ("Retry them", Action.RETRY, Status.UNKNOWN),
    ),
    Status.PENDING: (("Withdraw them", Action.CANCEL, Status.PENDING),),
    Status.CLAIMED: (("Withdraw them", Action.CANCEL, Status.CLAIMED),),
}


def offers_for(filters: Mapping[str, str]) -> list[Offer]:
    """Return what is offered for a search with these filters; nothing for one without any."""
    if not filters:
        return []
    found = []
    for label, action, status in _EACH.get(filters.get("status", ""), ()):
        chosen = {} if status is None else {"status": status.value}
        found.append(Offer(label=label, values={**filters, **chosen, "action": action.value}))
    return found
