"""A histogram with fixed bounds, of the seconds from an email's first due time to its acceptance.

The bounds are round, so that "within 30 seconds" is counted exactly. Neighbours differ by a third
to two thirds. All processes and versions must share the bounds, because the table keeps only the
bin's number. So bounds are never changed: a new histogram would need a new column.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

BOUNDS = (
    0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7,
    1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 45.0,
    60.0, 90.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0,
    3600.0, 5400.0, 7200.0, 10800.0, 14400.0, 21600.0, 28800.0, 43200.0, 57600.0, 86400.0,
    129600.0, 172800.0,
)  # fmt: skip
"""Seconds: the upper bounds of the bins, from 5 milliseconds to two days. The number of a bin
is its place here. One more bin, the last, has all that took longer."""

NO_BIN = -1
"""The bin of an attempt that was not accepted: it has no time to acceptance."""

MICROSECONDS = tuple(round(bound * 1_000_000) for bound in BOUNDS)
"""The bounds as whole numbers. A database computes the same bin from them as Python."""


def bin_of(microseconds: int) -> int:
    """Return the number of the bin; a time at its bound belongs to it.

    A negative time is in the first bin: the clocks of two hosts differ a little.
    """
    return bisect_left(MICROSECONDS, microseconds)


def quantiles(counts: Mapping[int, int], *parts: float) -> list[float | None]:
    """Return, for each part, the seconds within which it was accepted; None without emails.

    `counts` has the number of emails by bin, and the parts ascend. Within a bin, times are taken as
    evenly spread. So the error is less than the bin's width. Beyond the last bound it is that
    bound.
    """
    total = sum(counts.values())
    if not total:
        return [None] * len(parts)
    found: list[float | None] = []
    below, bins = 0, iter(sorted(counts.items()))
    number, inside = next(bins)
    for rank in (part * total for part in parts):
        while below + inside < rank:
            below += inside
            number, inside = next(bins)
        found.append(_within(number, (rank - below) / inside))
    return found


def _within(number: int, part: float) -> float:
    """Return the seconds at this part of the bin's width."""
    if number == len(BOUNDS):
        return BOUNDS[-1]
    low = BOUNDS[number - 1] if number else 0.0
    return low + (BOUNDS[number] - low) * part
