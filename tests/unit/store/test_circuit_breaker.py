"""How long a breaker stays open, and the ramp after it."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.breaker_timing import (
    RAMP,
    RAMP_SECONDS,
    Cause,
    open_seconds,
    ramp_limit,
)


@pytest.mark.parametrize(
    ("seconds", "batches"),
    [(0.0, 1), (0.99, 1), (1.0, 2), (2.5, 4), (5.9, 32), (6.0, None), (1e9, None)],
)
def test_the_batches_in_flight_double_each_second_until_there_is_no_limit(
    seconds: float, batches: int | None
) -> None:
    assert ramp_limit(seconds) == batches


def test_a_clock_that_stepped_back_lets_one_batch_through_and_not_none() -> None:
    assert ramp_limit(-5.0) == 1


def test_a_clock_that_stepped_back_by_more_than_a_ramp_limits_nothing() -> None:
    assert [ramp_limit(-RAMP_SECONDS), ramp_limit(-3600.0)] == [None, None]


def test_the_ramp_never_narrows_and_ends() -> None:
    assert [batches for _, batches in RAMP] == sorted({batches for _, batches in RAMP})
    assert [until for until, _ in RAMP] == sorted({until for until, _ in RAMP})
    assert RAMP_SECONDS == 6


@pytest.mark.parametrize(
    ("cause", "seconds"),
    [
        (Cause.SESSION, [5, 10, 20, 40, 80, 160, 300, 300]),
        (Cause.EMAILS, [5, 10, 20, 30, 30, 30, 30, 30]),
    ],
)
def test_the_pauses_double_up_to_what_the_cause_allows(cause: Cause, seconds: list[float]) -> None:
    assert [open_seconds(failures, cause) for failures in range(1, 9)] == seconds
    assert open_seconds(0, cause) == open_seconds(1, cause)
    assert open_seconds(10**9, cause) == seconds[-1]
