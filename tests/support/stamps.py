"""What is read off a recorder's stamps: rates over windows of time, and waits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil


def extremes(moments: Sequence[float], seconds: float) -> tuple[int, int]:
    """Return the fewest and the most moments in any window of this length between first and last.

    The counts change only where a window's edge passes a moment, so no window is left out.
    """
    starts = [moment for moment in moments if moment + seconds <= moments[-1]]
    assert starts, "the moments do not fill one window"
    most = max(bisect_left(moments, s + seconds) - bisect_left(moments, s) for s in starts)
    fewest = min(bisect_left(moments, s + seconds) - bisect_right(moments, s) for s in starts)
    return fewest, most


def burst(moments: Sequence[float], rate: float) -> float:
    """Return by how many moments any stretch of time, however long, exceeds an even rate."""
    worst = lowest = 0.0
    for number, moment in enumerate(moments):
        above = number - rate * (moment - moments[0])
        lowest = min(lowest, above)
        worst = max(worst, above + 1 - lowest)
    return worst


def percentile(waits: Sequence[float], share: float) -> float:
    """Return the smallest wait that this share of all waits does not exceed."""
    return sorted(waits)[max(0, ceil(share * len(waits)) - 1)]
