"""Which lane an email waits in, and what its limits are."""

from __future__ import annotations

import pytest

from outbox.domain.scheduling.lanes import AHEAD, ALL, Lanes
from outbox.domain.scheduling.token_bucket import Rate

RATE, GMAIL, YAHOO, NEWS = Rate(500, 60), Rate(20, 1), Rate(5, 1), Rate(1, 1)
LANES = Lanes(
    rate=RATE,
    domains={"gmail.com": GMAIL, "yahoo.com": YAHOO, "same.example": Rate(300, 60)},
)
ROUTED = Lanes(domains={"gmail.com": GMAIL}, routes={"": {}, "news": {"server:ses": NEWS}})


@pytest.mark.parametrize(
    ("recipients", "lane"),
    [
        (["a@x.example"], ""),
        (["a@gmail.com"], "@gmail.com"),
        (["a@GMAIL.com"], "@gmail.com"),
        (["a@sub.gmail.com"], ""),
        (["a@gmail.com", "a@x.example", "b@yahoo.com"], "@yahoo.com"),
        (["b@same.example", "a@gmail.com", "a@yahoo.com"], "@same.example"),
        (["a@yahoo.com", "a@gmail.com", "b@gmail.com", "c@gmail.com"], "@yahoo.com"),
        (["a@yahoo.com", *(f"{n}@gmail.com" for n in range(5))], "@gmail.com"),
    ],
)
def test_an_email_waits_in_the_lane_of_the_domain_that_takes_longest(
    recipients: list[str], lane: str
) -> None:
    assert LANES.of("", recipients) == lane


def test_without_domain_rates_a_route_is_one_lane() -> None:
    assert Lanes(rate=RATE).of("news", ["a@gmail.com"]) == "news"


def test_every_route_has_a_lane_for_every_limited_domain() -> None:
    assert ROUTED.of("", ["a@gmail.com"]) == "@gmail.com"
    assert ROUTED.of("news", ["a@gmail.com"]) == "news@gmail.com"
    assert ROUTED.of("news", ["a@yahoo.com"]) == "news"


def test_a_lane_draws_on_the_buckets_of_its_route_its_domain_and_all() -> None:
    assert LANES.buckets("") == {ALL: RATE}
    assert LANES.buckets("@gmail.com") == {ALL: RATE, "domain:gmail.com": GMAIL}
    assert ROUTED.buckets("") == {}
    assert ROUTED.buckets("news@gmail.com") == {"server:ses": NEWS, "domain:gmail.com": GMAIL}


def test_a_lane_that_the_settings_do_not_name_keeps_what_is_left_of_its_limits() -> None:
    lanes = Lanes(rate=RATE, domains={"gmail.com": GMAIL}, routes={"": {"server:mx": NEWS}})
    assert lanes.buckets("gone@gmail.com") == lanes.buckets("@gmail.com")
    assert lanes.buckets("@gone.example") == lanes.buckets("")


@pytest.mark.parametrize(
    ("lanes", "lane", "beside", "others"),
    [
        (LANES, "@gmail.com", ["@gmail.com", "", "@yahoo.com"], []),
        (ROUTED, "@gmail.com", ["@gmail.com", "news@gmail.com"], ["", "news", "@yahoo.com"]),
        (ROUTED, "news", ["news", "news@gmail.com"], ["", "@gmail.com"]),
        (ROUTED, "", [""], ["@gmail.com", "news"]),
    ],
)
def test_which_lanes_share_a_bucket(
    lanes: Lanes, lane: str, beside: list[str], others: list[str]
) -> None:
    assert all(lanes.share_a_bucket(lane, other) for other in beside)
    assert not any(lanes.share_a_bucket(lane, other) for other in others)


def test_a_lane_is_closed_while_one_of_its_buckets_lags() -> None:
    lags = {"all": -1.0, "domain:gmail.com": 2.0, "domain:gone.example": 9.0}
    assert LANES.is_closed("@gmail.com", lags)
    assert LANES.is_closed("@gmail.com", {"domain:gmail.com": AHEAD + 0.1})
    assert not LANES.is_closed("@gmail.com", {"domain:gmail.com": AHEAD}), "a batch may wait for it"
    assert not LANES.is_closed("@yahoo.com", lags)
    assert not LANES.is_closed("@gone.example", lags)


def test_all_buckets_are_those_of_every_lane() -> None:
    lanes = Lanes(rate=RATE, domains={"gmail.com": GMAIL}, routes={"": {}, "news": {"s": NEWS}})
    assert lanes.all_buckets == {ALL: RATE, "domain:gmail.com": GMAIL, "s": NEWS}
    assert Lanes().all_buckets == {}


def test_the_tightest_rate_sets_windows_and_claims() -> None:
    assert (LANES.max_window("@gmail.com"), LANES.max_claimed("@gmail.com")) == (1, 16)
    assert (ROUTED.max_window("@gmail.com"), ROUTED.max_claimed("@gmail.com")) == (4, 40)
    assert (ROUTED.max_window(""), ROUTED.max_claimed("")) == (None, None)


def test_every_recipient_is_a_permit_of_each_bucket_that_counts_it() -> None:
    charge = LANES.cost("@gmail.com", ["a@gmail.com", "b@Gmail.com", "c@x.example"])
    assert charge.required == {ALL: (RATE, 3), "domain:gmail.com": (GMAIL, 2)}
    assert charge.charged_anyway == {}


def test_another_domain_s_bucket_is_charged_and_not_waited_for() -> None:
    both = ["a@gmail.com", "b@yahoo.com"]
    charge = LANES.cost(LANES.of("", both), both)
    assert charge.required == {ALL: (RATE, 2), "domain:yahoo.com": (YAHOO, 1)}
    assert charge.charged_anyway == {"domain:gmail.com": (GMAIL, 1)}


def test_a_lane_is_limited_by_a_rate_of_its_domain() -> None:
    assert LANES.is_limited("news@gmail.com")
    assert not any(map(LANES.is_limited, ("", "gmail.com", "@gone.example")))


def test_without_limits_nothing_is_charged() -> None:
    charge = Lanes().cost("", ["a@gmail.com"])
    assert (charge.required, charge.charged_anyway) == ({}, {})
