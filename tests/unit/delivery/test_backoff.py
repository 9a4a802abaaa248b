"""When an email that was put off is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.scheduling.backoff import (
    BEHIND_MAX,
    FLOOR,
    GREYLIST_FLOOR,
    STEPS,
    behind,
    delay,
    passed_over,
)

CHANCE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("attempts", "step"),
    [(1, 30), (2, 120), (3, 600), (4, 1800), (5, 3600), (6, 7200), (7, 7200), (1000, 7200)],
)
def test_the_steps_are_the_documented_ones_and_the_last_repeats(attempts: int, step: int) -> None:
    assert delay(attempts, random=lambda: 1.0) == step
    assert delay(attempts, random=lambda: 0.5) == step / 2


@pytest.mark.parametrize("attempts", [0, -1])
def test_fewer_than_one_attempt_waits_as_after_the_first(attempts: int) -> None:
    assert delay(attempts, random=lambda: 1.0) == STEPS[0]


@given(st.integers(0, 100), CHANCE)
def test_full_jitter_stays_between_the_floor_and_the_step(attempts: int, chance: float) -> None:
    wait = delay(attempts, random=lambda: chance)
    assert FLOOR <= wait <= STEPS[min(max(attempts, 1), len(STEPS)) - 1]


@given(st.integers(0, 100), CHANCE, st.floats(0, 86_400))
def test_a_delay_that_the_server_names_is_the_least(
    attempts: int, chance: float, named: float
) -> None:
    wait = delay(attempts, random=lambda: chance, named=named)
    step = STEPS[min(max(attempts, 1), len(STEPS)) - 1]
    assert wait >= named
    assert FLOOR <= wait <= max(step, named * 1.1)


def test_a_named_delay_is_jittered_upwards_only() -> None:
    assert delay(1, random=lambda: 0.0, named=300) == 300
    assert delay(1, random=lambda: 1.0, named=300) == pytest.approx(330)


def test_a_named_delay_shorter_than_the_jitter_changes_nothing() -> None:
    assert delay(6, random=lambda: 0.5, named=10) == 3600


def test_the_same_chances_give_the_same_schedule() -> None:
    chances = [0.1, 0.9, 0.4]
    assert [delay(n, random=iter(chances).__next__) for n in (1, 2, 3)] == [
        delay(n, random=iter(chances).__next__) for n in (1, 2, 3)
    ]


def test_greylisting_waits_a_minute_at_least() -> None:
    assert GREYLIST_FLOOR == 60
    assert delay(1, random=lambda: 0.0, named=GREYLIST_FLOOR) == 60


def test_other_steps_can_be_given() -> None:
    assert delay(2, random=lambda: 0.0, steps=(1, 2)) == FLOOR
    assert delay(9, random=lambda: 1.0, steps=(1, 2)) == 2


def test_who_waits_behind_waits_each_time_as_long_as_all_times_before() -> None:
    waited, delays = 0.0, []
    for _ in range(14):
        delays.append(behind(waited))
        waited += delays[-1]
    assert delays[:6] == [5, 5, 10, 20, 40, 80]
    assert delays[-1] == BEHIND_MAX
    assert behind(0.0, named=600.0) == 600.0


def test_who_was_not_tried_comes_back_before_those_who_were() -> None:
    assert passed_over(0.0) == behind(0.0)
    assert all(passed_over(waited) < behind(waited) for waited in (6.0, 10.0, 600.0, 1e6))
