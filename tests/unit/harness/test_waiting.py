import pytest

from tests.support.waiting import wait_until


def test_the_value_that_was_waited_for_is_returned() -> None:
    answers = iter(["", "", "mail"])
    assert wait_until(lambda: next(answers), 10, "an email") == "mail"


def test_a_condition_that_never_comes_true_says_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.01 s for an email, there are 0"):
        wait_until(lambda: False, 0.01, lambda: "an email, there are 0")


def test_a_condition_that_is_true_costs_no_time() -> None:
    assert wait_until(lambda: True, 0, "nothing")


def test_between_two_dear_looks_there_is_a_pause() -> None:
    looks: list[None] = []
    with pytest.raises(TimeoutError):
        wait_until(lambda: looks.append(None), 0.01, "nothing", pause=10)
    assert len(looks) == 2, "at once, and at the end"
