"""Times to acceptance in bins: the quantiles are those of the times themselves, nearly."""

from __future__ import annotations

import statistics
from collections import Counter
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.figures.histogram import BOUNDS, MICROSECONDS, bin_of, quantiles

LONGEST = MICROSECONDS[-1]


def test_the_bounds_are_steps_of_a_third_to_two_thirds_up_to_two_days() -> None:
    steps = [high / low for low, high in pairwise(BOUNDS)]
    assert min(steps) >= 4 / 3 - 0.001
    assert max(steps) <= 5 / 3 + 0.001
    assert (BOUNDS[0], BOUNDS[-1]) == (0.005, 2 * 86_400)


@pytest.mark.parametrize(
    ("microseconds", "number"),
    [(-5, 0), (0, 0), (5_000, 0), (5_001, 1), (7_000, 1), (LONGEST, 47), (LONGEST + 1, 48)],
)
def test_a_time_at_a_bound_is_in_the_bin_below_it(microseconds: int, number: int) -> None:
    assert bin_of(microseconds) == number


times = st.one_of(st.integers(0, 10_000), st.integers(0, 60_000_000), st.integers(0, LONGEST))


@given(found=st.lists(times, min_size=1, max_size=300))
def test_each_quantile_is_in_the_bin_of_the_true_one(found: list[int]) -> None:
    parts = (0.5, 0.95, 0.99)
    for part, seconds in zip(parts, quantiles(Counter(map(bin_of, found)), *parts), strict=True):
        true = sorted(found)[ceil(part * len(found)) - 1]  # so many emails were as fast
        number = bin_of(true)
        assert seconds is not None
        assert (0.0, *BOUNDS)[number] <= seconds <= BOUNDS[number]


def test_of_times_that_are_evenly_spread_over_whole_bins_the_quantiles_are_exact() -> None:
    spread = [number * 1_000 for number in range(1, 90_001)]  # up to 90 seconds
    counts = Counter(map(bin_of, spread))
    exact = statistics.quantiles(spread, n=100)
    found = quantiles(counts, 0.5, 0.95, 0.99)
    assert found == pytest.approx([exact[n - 1] / 1e6 for n in (50, 95, 99)], rel=0.001)


def test_without_emails_there_is_no_quantile_and_beyond_two_days_it_is_two_days() -> None:
    assert quantiles({}, 0.5, 0.95) == [None, None]
    assert quantiles({48: 3}, 0.5) == [BOUNDS[-1]]
