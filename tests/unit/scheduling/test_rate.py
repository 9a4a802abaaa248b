"""Rates as they are written, and the bucket's arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.errors import ConfigurationError
from outbox.domain.scheduling.token_bucket import (
    MARGIN,
    SLACK,
    Rate,
    lag_after,
    read_domain_rates,
    read_rate,
    wait,
)

KEY = "OUTBOX_RATE"


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("500/min", Rate(500, 60)),
        ("14/s", Rate(14, 1)),
        ("20000/h", Rate(20_000, 3600)),
        ("50000/day", Rate(50_000, 86_400)),
        (" 1 / s ", Rate(1, 1)),
    ],
)
def test_a_rate_is_a_number_over_a_unit(text: str, rate: Rate) -> None:
    assert read_rate(KEY, text) == rate


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_rate_is_none(nothing: Any) -> None:
    assert read_rate(KEY, nothing) is None


@pytest.mark.parametrize(
    "wrong", ["500", "500/", "/s", "0/s", "-1/s", "1.5/s", "5/week", "5/S", "\u0663/s", 5, b"5/s"]
)
def test_anything_else_is_refused_with_an_example_and_the_units(wrong: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_rate(KEY, wrong)
    assert str(caught.value) == (
        'OUTBOX_RATE must be a number per time unit, such as "500/min"; units: s, min, h, day'
    )


def test_domains_are_compared_in_ascii_and_lower_case() -> None:
    rates = read_domain_rates("R", {"GMail.COM": "20/s", "B\u00fccher.example": "1/min"})
    assert rates == {"gmail.com": Rate(20, 1), "xn--bcher-kva.example": Rate(1, 60)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("20/s", 'R must be a dict, such as {"gmail.com": "20/s"}'),
        ({"@gmail.com": "1/s"}, "R: '@gmail.com' is not a domain name"),
        ({"a b": "1/s"}, "R: 'a b' is not a domain name"),
        ({7: "1/s"}, "R: 7 is not a domain name"),
        ({"x.example": ""}, "R['x.example'] must not be empty"),
        ({"x.example": "1/s", "X.example": "2/s"}, "R names the domain x.example twice"),
    ],
)
def test_wrong_domain_rates_are_refused_by_name(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_domain_rates("R", wrong)
    assert str(caught.value) == message


def test_a_wrong_rate_of_a_domain_names_the_domain() -> None:
    with pytest.raises(ConfigurationError, match=r"R\['x.example'\] must be a number"):
        read_domain_rates("R", {"x.example": "fast"})


@pytest.mark.parametrize(
    ("rate", "chunk"), [(Rate(500, 60), 1), (Rate(14, 1), 2), (Rate(5, 1), 1), (Rate(1000, 1), 200)]
)
def test_a_window_takes_a_fifth_of_a_second_s_permits_at_the_most(rate: Rate, chunk: int) -> None:
    assert rate.chunk == chunk


def test_a_part_of_a_rate_is_slower_by_it() -> None:
    assert Rate(10, 1).part(0.8).interval == pytest.approx(0.125)


def test_a_bucket_is_open_until_its_time_and_then_some_for_all_but_urgent_email() -> None:
    assert wait(0.0) == 0.0
    assert wait(1.5) == 1.5
    assert wait(-0.05, MARGIN) == pytest.approx(0.05)
    assert wait(-MARGIN, MARGIN) == 0.0


def test_a_thousand_recipients_fit_a_budget_of_five_hundred_and_are_paid_off_later() -> None:
    assert lag_after(-3600.0, Rate(500, 60), 1000) == pytest.approx(120 - SLACK)


def test_all_but_urgent_email_is_still_in_time_when_it_wakes_late() -> None:
    assert MARGIN < SLACK


rates = st.builds(Rate, st.floats(0.1, 5000), st.sampled_from([1, 60, 3600]))
# Each taker: how late it comes after the bucket opens, and how many permits it wants.
takers = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 40)), min_size=1, max_size=60)


def run(rate: Rate, takers: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the moments at which permits were taken, and how many."""
    now, lag, moments = 0.0, -100.0, list[tuple[float, int]]()
    for late, permits in takers:
        pause = max(0.0, lag + late)
        now, lag = now + pause, lag - pause
        assert wait(lag) == 0.0
        lag = lag_after(lag, rate, permits)
        moments.append((now, permits))
    return moments


@given(rates, takers)
def test_over_any_time_no_more_goes_than_the_rate_the_slack_and_one_window(
    rate: Rate, takers: list[tuple[float, int]]
) -> None:
    moments = run(rate, takers)
    for first in range(len(moments)):
        for last in range(first, len(moments)):
            seconds = moments[last][0] - moments[first][0]
            before = sum(permits for _, permits in moments[first:last])
            assert before <= (seconds + SLACK) / rate.interval + 1e-6 * before


@given(rates, st.lists(st.tuples(st.floats(0, SLACK), st.integers(1, 40)), min_size=2))
def test_takers_that_wake_late_by_less_than_the_slack_lose_nothing(
    rate: Rate, takers: list[tuple[float, int]]
) -> None:
    moments = run(rate, takers)
    taken_before_the_last = sum(permits for _, permits in moments[:-1])
    seconds = moments[-1][0] - moments[0][0]
    assert seconds <= taken_before_the_last * rate.interval + SLACK + 1e-6 * seconds
