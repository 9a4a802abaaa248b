"""The seconds that an email is at its server, over all of its transactions."""

from __future__ import annotations

import pytest

from outbox.worker.batch.todo import Stopwatch


class Clock:
    """A clock that goes on when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_the_seconds_of_its_blocks_count_and_those_of_the_open_one() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    with watch:
        clock.now += 2
    clock.now += 50  # it waits for the database
    assert watch.seconds == 2
    with watch:
        clock.now += 3
        assert watch.seconds == 5
    assert watch.seconds == 5


def test_an_error_ends_a_block_too_and_the_next_email_begins_anew() -> None:
    clock = Clock()
    watch = Stopwatch(clock)

    def fail() -> None:
        with watch:
            clock.now += 4
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    clock.now += 50
    assert watch.seconds == 4
    watch.reset()
    assert watch.seconds == 0
