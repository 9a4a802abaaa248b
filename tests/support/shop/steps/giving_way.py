"""Whether a batch gives way, in an outbox of a number of slots that the test says."""

from __future__ import annotations

from outbox import Priority
from outbox.store.queries.sweep.preemption import YieldQuestion
from outbox.worker.capacity.claimable import Claimable, Mine
from tests.support.shop.shop import Shop


def gives_way(
    shop: Shop,
    priority: Priority = Priority.NORMAL,
    *,
    slots: int,
    lane: str = "",
    emails: int = 1,
) -> bool:
    """Return whether a batch of this lane and priority is to give way."""
    more_urgent = [one for one in Priority if one < priority]
    plan = Claimable(shop.runtime, Mine(lane, priority, emails), more_urgent)
    question = YieldQuestion(shop.database, shop.runtime.lanes, shop.runtime.routes, plan)
    ask = question.bulk_yields if priority is Priority.BULK else question.yields_to_urgent
    return ask(slots=slots)
