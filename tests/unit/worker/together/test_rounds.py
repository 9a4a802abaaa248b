"""One sweep at a time: who comes meanwhile is swept for, and a hung sweep stops nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox.worker.together.rounds import MOST_ROUNDS, PATIENCE, Rounds


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rounds(clock: Clock) -> Rounds:
    return Rounds(clock)


def count(rounds: Iterator[None] | Rounds) -> int:
    return sum(1 for _ in rounds)


def test_a_lone_thread_sweeps_once(rounds: Rounds) -> None:
    assert count(rounds) == 1
    assert count(rounds) == 1


def test_those_who_come_meanwhile_have_it_go_round_once_more_for_all_of_them(
    rounds: Rounds,
) -> None:
    going = iter(rounds)
    next(going)
    assert [count(rounds) for _ in range(3)] == [0, 0, 0]
    assert count(going) == 1


def test_who_comes_in_the_second_round_has_a_third_one(rounds: Rounds) -> None:
    going = iter(rounds)
    for _ in range(2):
        next(going)
        assert count(rounds) == 0
    assert count(going) == 1
    assert count(rounds) == 1


def test_it_ends_although_somebody_comes_in_each_round(rounds: Rounds) -> None:
    swept = 0
    for _ in rounds:
        swept += 1
        assert count(rounds) == 0
    assert swept == MOST_ROUNDS
    assert count(rounds) == 1, "the next one sweeps again"


def test_a_sweep_that_fails_or_stops_early_leaves_the_turn(rounds: Rounds) -> None:
    def fail() -> None:
        for _ in rounds:
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert count(rounds) == 1
    for _ in rounds:
        break
    assert count(rounds) == 1


def test_a_sweep_that_hangs_stops_no_other(rounds: Rounds, clock: Clock) -> None:
    hung = iter(rounds)
    next(hung)
    clock.now += PATIENCE
    other = iter(rounds)
    next(other)
    assert count(hung) == 0, "its turn is over"
    assert count(rounds) == 0, "the other one goes on"
    assert count(other) == 1


def test_each_round_has_its_own_patience(rounds: Rounds, clock: Clock) -> None:
    going = iter(rounds)
    next(going)
    clock.now += PATIENCE - 0.1
    assert count(rounds) == 0
    next(going)
    clock.now += PATIENCE - 0.1
    assert count(rounds) == 0


def test_the_child_of_a_fork_sweeps_though_its_parent_did(rounds: Rounds) -> None:
    next(iter_of_parent := iter(rounds))
    rounds.after_fork()
    assert count(rounds) == 1
    iter_of_parent.close()  # type: ignore[attr-defined]
