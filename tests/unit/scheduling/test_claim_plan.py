"""How the due emails are spread over the free slots."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest, DueEmails, InFlight, LaneKey
from outbox.domain.scheduling.claim_planner import next_opening, plan_claims
from outbox.domain.scheduling.lanes import AHEAD, Lanes
from outbox.domain.scheduling.token_bucket import Rate

U, N, B = Priority.URGENT, Priority.NORMAL, Priority.BULK


def by_priority(shares: tuple[ClaimRequest, ...]) -> dict[Priority, tuple[int, int]]:
    return {s.priority: (s.batches, s.size) for s in shares}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    slots = draw(st.integers(1, 16))
    # Urgent batches, aged bulk and rescues may exceed the slots.
    flight = draw(st.dictionaries(st.sampled_from(Priority), st.integers(1, slots + 1)))
    due = draw(st.dictionaries(st.sampled_from(Priority), st.integers(1, 5000)))
    window = draw(st.integers(1, 50))
    return {
        "due": {("", priority): DueEmails(emails=emails) for priority, emails in due.items()},
        "flight": {("", p): InFlight(batches=n, emails=n * window) for p, n in flight.items()},
        "lanes": Lanes(),
        "lags": {},
        "slots": slots,
        "batch": draw(st.integers(window, 300)),
        "window": window,
    }


def made(case: dict[str, Any]) -> tuple[ClaimRequest, ...]:
    return plan_claims(
        case["due"], case["flight"], **{k: case[k] for k in case.keys() - {"due", "flight"}}
    )


def free(case: dict[str, Any]) -> int:
    running: int = sum(flight.batches for flight in case["flight"].values())
    return int(case["slots"]) - running


def waiting(case: dict[str, Any], priority: Priority) -> int:
    due: DueEmails = case["due"].get(("", priority), DueEmails(emails=0))
    return due.emails


@given(cases())
def test_never_more_than_is_free_but_for_one_urgent_batch(case: dict[str, Any]) -> None:
    batches = {s.priority: s.batches for s in made(case)}
    assert sum(batches.values()) <= max(free(case), 1)
    assert batches.pop(U, 0) <= max(free(case), 1)
    if free(case) <= 0:
        assert not batches


@given(cases())
def test_a_batch_is_never_over_its_size_nor_empty(case: dict[str, Any]) -> None:
    for part in made(case):
        due = waiting(case, part.priority)
        assert 1 <= part.size <= case["batch"]
        assert part.size >= case["window"]
        assert part.batches >= 1
        assert (part.batches - 1) * part.size < due, "a claim that would surely find nothing"


@given(cases())
def test_all_that_is_due_is_covered_where_there_is_room(case: dict[str, Any]) -> None:
    shares = by_priority(made(case))
    room = free(case)
    for priority in Priority:
        due = waiting(case, priority)
        batches, size = shares.get(priority, (0, 0))
        urgent_runs = ("", U) in case["flight"]
        least = max(room, 1) if priority is U and not urgent_runs else room
        assert batches * size >= min(due, max(least, 0) * case["batch"])
        room -= batches


@given(cases())
def test_the_shares_come_urgent_first_and_each_priority_once(case: dict[str, Any]) -> None:
    priorities = [s.priority for s in made(case)]
    assert priorities == sorted(set(priorities))


def spread(
    due: Mapping[LaneKey, int | DueEmails],
    flight: Mapping[LaneKey, int] | None = None,
    *,
    lanes: Lanes | None = None,
    slots: int = 4,
    lag: float = -1.0,
    emails: int = 20,
    rooms: Mapping[str, float] = MappingProxyType({}),
    turns: Mapping[LaneKey, int] = MappingProxyType({}),
) -> dict[LaneKey, tuple[int, int]]:
    """Return the batches and their size of each lane and priority; every bucket has this lag."""
    lanes = lanes or Lanes()
    shares = plan_claims(
        {way: DueEmails(emails=n) if isinstance(n, int) else n for way, n in due.items()},
        {way: InFlight(batches=n, emails=n * emails) for way, n in (flight or {}).items()},
        lanes=lanes,
        lags=dict.fromkeys(lanes.all_buckets, lag),
        slots=slots,
        batch=200,
        window=20,
        rooms=rooms,
        turns=turns,
    )
    return {(s.lane, s.priority): (s.batches, s.size) for s in shares}


def plan(
    due: dict[Priority, int], free: int = 4, urgent: int = 0
) -> dict[Priority, tuple[int, int]]:
    flight = {("", U): urgent, ("", N): 4 - free - urgent}
    found = spread({("", priority): n for priority, n in due.items()}, flight)
    return {priority: plan_claims for (_, priority), plan_claims in found.items()}


def test_a_small_backlog_is_spread_over_the_slots() -> None:
    assert plan({N: 100}) == {N: (4, 25)}


def test_a_very_small_backlog_is_one_window() -> None:
    assert plan({N: 20}) == {N: (1, 20)}
    assert plan({N: 1}) == {N: (1, 20)}


def test_a_large_backlog_fills_every_slot_with_whole_batches() -> None:
    assert plan({N: 100_000}) == {N: (4, 200)}


def test_an_urgent_email_goes_out_though_every_slot_is_taken() -> None:
    assert plan({U: 1, N: 500, B: 500}, free=0) == {U: (1, 20)}
    assert plan({U: 1}, free=-2) == {U: (1, 20)}


def test_a_second_urgent_batch_waits_for_a_slot() -> None:
    assert plan({U: 1}, free=0, urgent=1) == {}
    assert plan({U: 1}, free=1, urgent=1) == {U: (1, 20)}


def test_urgent_comes_before_normal_and_normal_before_bulk() -> None:
    assert plan({U: 1, N: 1, B: 100_000}) == {U: (1, 20), N: (1, 20), B: (2, 200)}


def test_bulk_alone_takes_all_slots() -> None:
    assert plan({B: 100_000}) == {B: (4, 200)}
    assert plan({B: 100_000}, free=1) == {B: (1, 200)}


def test_nothing_due_is_nothing_to_claim() -> None:
    assert plan({}) == {}


ROUTES = Lanes(rate=Rate(500, 60), routes={"": {}, "news": {}})


def test_email_without_a_server_takes_no_permits_from_another_route() -> None:
    due = {("news", N): 100, ("", N): 100}
    assert spread(due, lanes=ROUTES, slots=1, rooms={"news": 0}) == {("", N): (1, 16)}


TWO = Lanes(domains={"slow.example": Rate(1000, 1)})


def test_lanes_get_slots_in_turn() -> None:
    found = spread({("", N): 10_000, ("@slow.example", N): 10_000}, lanes=TWO)
    assert {way: batches for way, (batches, _) in found.items()} == {
        ("", N): 2,
        ("@slow.example", N): 2,
    }


def test_the_lane_with_the_fewest_batches_in_flight_is_next() -> None:
    found = spread({("", N): 900, ("@slow.example", N): 900}, {("", N): 3}, lanes=TWO)
    assert list(found) == [("@slow.example", N)]


LIMITED = Lanes(rate=Rate(500, 60))  # 16 in two seconds


def test_of_a_limited_lane_two_seconds_worth_is_claimed_and_no_more() -> None:
    assert spread({("", N): 16}, lanes=LIMITED) == {("", N): (4, 4)}
    assert spread({("", N): 10_000}, lanes=LIMITED) == {("", N): (4, 4)}
    assert spread({("", N): 10_000}, {("", N): 1}, lanes=LIMITED, emails=15) == {("", N): (1, 1)}
    assert spread({("", N): 10_000}, {("", N): 1}, lanes=LIMITED, emails=16) == {}


def test_what_less_urgent_email_has_claimed_leaves_urgent_email_its_own() -> None:
    found = spread({("", U): 1, ("", N): 9}, {("", B): 2}, lanes=LIMITED, emails=16)
    assert found == {("", U): (1, 1), ("", N): (1, 9)}


def test_of_a_rate_in_full_use_two_batches_keep_up_and_slots_stay_free() -> None:
    assert spread({("", N): 10_000}, lanes=LIMITED, lag=0.1) == {("", N): (2, 8)}
    assert spread({("", N): 10_000}, {("", N): 2}, lanes=LIMITED, lag=0.1, emails=1) == {}


def test_a_fast_rate_in_full_use_takes_every_slot() -> None:
    fast = Lanes(rate=Rate(1000, 1))
    assert spread({("", N): 10_000}, lanes=fast, lag=0.1) == {("", N): (4, 200)}


def test_a_lane_s_own_bucket_counts_only_what_draws_on_it() -> None:
    lanes = Lanes(rate=Rate(1000, 1), domains={"slow.example": Rate(2, 1)})
    found = spread({("@slow.example", N): 100}, {("", N): 2}, lanes=lanes, emails=200)
    assert found == {("@slow.example", N): (2, 2)}


def test_lanes_share_what_their_common_bucket_gives() -> None:
    lanes = Lanes(rate=Rate(500, 60), domains={"slow.example": Rate(100, 1)})
    found = spread({("", N): 100, ("@slow.example", N): 100}, lanes=lanes)
    assert sum(batches * size for batches, size in found.values()) == 16
    assert set(found) == {("", N), ("@slow.example", N)}


def test_the_next_sweep_is_worth_it_when_the_first_closed_lane_opens() -> None:
    assert next_opening({"a": 60.0, "b": 9.0, "c": 0.5, "d": -3.0}) == 9.0 - AHEAD


def test_where_every_lane_is_open_no_sweep_brings_the_next() -> None:
    assert next_opening({}) is None
    assert next_opening({"a": AHEAD, "b": -3.0}) is None


def test_a_lane_about_to_open_does_not_bring_sweep_after_sweep() -> None:
    assert next_opening({"a": AHEAD + 1e-6}) == 0.05
