"""Whether a batch gives way, in an outbox of a number of slots that the test says."""

from __future__ import annotations

from outbox import Priority
from outbox.store.queries.sweep.preemption import should_yield_bulk, should_yield_to_urgent
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
    ask = should_yield_bulk if priority is Priority.BULK else should_yield_to_urgent
    return ask(
        shop.database,
        shop.runtime.lanes,
        slots=slots,
        routes=shop.runtime.routes,
        claimable=Claimable(
            shop.runtime,
            Mine(lane, priority, emails),
            [one for one in Priority if one < priority],
        ),
    )
