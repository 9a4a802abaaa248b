"""How many emails a job changes at once, and how far it is."""

from __future__ import annotations

from ..search.place import Place

FIRST, LEAST, MOST = 200, 20, 1000
"""Emails in one transaction: at first, at least, and at most."""

TARGET = 0.05
"""Seconds that one transaction should take. Whoever waits for a row or a lock waits so long."""


def next_size(size: int, took: float) -> int:
    """Return how many emails the next transaction changes, after one of this size took so long.

    It grows slowly and shrinks at once, because a slow transaction keeps others waiting.
    """
    if took > TARGET * 2:
        return max(LEAST, size // 2)
    return min(MOST, size + size // 4) if took < TARGET else size


def part_done(first: Place, place: Place, last: Place) -> float:
    """Return about which part of the way from `first` to `last` lies before `place`: 0.0 to 1.0.

    It goes by moments where the places have some, and by ids elsewhere.
    """
    if first.moment and place.moment and last.moment:
        way = (first.moment - last.moment).total_seconds()
        gone = (first.moment - place.moment).total_seconds()
    else:
        way, gone = float(first.id - last.id), float(first.id - place.id)
    return min(1.0, max(0.0, gone / way)) if way > 0 else 0.0
