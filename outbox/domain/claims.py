"""How many mails to claim at which priority, and in how many batches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .priority import Priority


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Claims to make: `batches` of at most `size` mails each."""

    priority: Priority
    batches: int
    size: int


def share(
    due: Mapping[Priority, int],
    *,
    free: int,
    slots: int,
    urgent_in_flight: int,
    batch: int,
    window: int,
) -> tuple[Share, ...]:
    """Spread the due mails over the free slots, urgent first.

    A small backlog is spread evenly, but not below one window a batch. Bulk never takes the last
    free slot where there are two slots or more, and one urgent batch goes out even when all are
    taken.
    """
    shares: list[Share] = []
    for priority in Priority:
        count, room = due.get(priority, 0), free
        if priority is Priority.URGENT:
            room = max(free, 0 if urgent_in_flight else 1)
        if priority is Priority.BULK and slots > 1:
            room = free - 1
        if count <= 0 or room <= 0:
            continue
        size = min(batch, max(window, -(-count // room)))
        batches = min(room, -(-count // size))
        shares.append(Share(priority=priority, batches=batches, size=size))
        free -= batches
    return tuple(shares)
