"""What the acceptance tests read off a server's stamps, checked on stamps that are known."""

from __future__ import annotations

import pytest

from tests.support.stamps import burst, extremes, percentile

EVEN = [number / 4 for number in range(101)]  # four a second, for 25 seconds


def test_an_even_rate_has_the_same_count_in_every_window() -> None:
    fewest, most = extremes(EVEN, 10.0)
    assert (fewest, most) == (39, 40), "a window that opens right after a moment lacks that one"


def test_a_gap_is_seen_by_the_fewest_and_a_crowd_by_the_most() -> None:
    gap = [moment for moment in EVEN if not 8.0 < moment < 10.0]
    assert extremes(gap, 10.0) == (32, 40)
    crowd = sorted([*EVEN, 12.1, 12.2])
    assert extremes(crowd, 10.0) == (39, 42)


def test_what_fills_no_window_is_not_measured() -> None:
    with pytest.raises(AssertionError):
        extremes([0.0, 1.0], 10.0)


def test_a_burst_is_what_any_stretch_of_time_holds_above_the_rate() -> None:
    assert burst(EVEN, 4.0) == 1.0, "one at a time"
    assert burst([0.0] * 7, 4.0) == 7.0
    late = [*EVEN, *[26.0 + moment for moment in (0.0, 0.0, 0.0, 1.0)]]
    assert burst(late, 4.0) == 3.0, "what was not taken before it counts for nothing"


def test_a_percentile_is_a_wait_that_happened() -> None:
    waits = [float(number) for number in range(100, 0, -1)]
    assert [percentile(waits, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([3.0], 0.99) == 3.0
