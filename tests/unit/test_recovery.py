"""The ramp after an outage."""

from __future__ import annotations

import pytest

from outbox.domain.recovery import RAMP, RAMP_SECONDS, allowed


@pytest.mark.parametrize(
    ("seconds", "batches"),
    [(0.0, 1), (0.99, 1), (1.0, 2), (2.5, 4), (5.9, 32), (6.0, None), (1e9, None)],
)
def test_the_batches_in_flight_double_each_second_until_there_is_no_limit(
    seconds: float, batches: int | None
) -> None:
    assert allowed(seconds) == batches


def test_a_clock_that_stepped_back_lets_one_batch_through_and_not_none() -> None:
    assert allowed(-5.0) == 1


def test_the_ramp_never_narrows_and_ends() -> None:
    assert [batches for _, batches in RAMP] == sorted({batches for _, batches in RAMP})
    assert [until for until, _ in RAMP] == sorted({until for until, _ in RAMP})
    assert RAMP_SECONDS == 6
