"""Lanes of one priority take turns, however old the backlog of one is."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.scheduling.claim_plan import DueEmails, LaneKey
from outbox.domain.scheduling.lanes import HORIZON, Lanes
from outbox.domain.scheduling.permitted import ROUND
from outbox.domain.scheduling.token_bucket import MARGIN, Rate
from outbox.worker.together.turns import Turns
from tests.support.rounds import BATCH, Rounds
from tests.unit.scheduling.test_claim_plan import B, N, U, spread

SLOW = Lanes(domains={"slow.example": Rate(1, 1)})
OLD = DueEmails(emails=1000, age=600.0)
NEW = DueEmails(emails=1, age=500.0)
TWO: dict[LaneKey, DueEmails | int] = {("@slow.example", N): OLD, ("", N): NEW}


def test_the_lane_with_the_older_backlog_had_its_turn() -> None:
    assert list(spread(TWO, slots=1, turns={("@slow.example", N): 7})) == [("", N)]
    both = {("@slow.example", N): 7, ("", N): 8}
    assert list(spread(TWO, slots=1, turns=both)) == [("@slow.example", N)]
    assert list(spread(TWO, slots=1)) == [("@slow.example", N)], "the oldest begins"


@pytest.mark.parametrize("rooms", [{}, {"": 1}])
def test_a_process_that_has_just_begun_sees_at_its_rate_that_a_lane_had_a_turn(
    rooms: dict[str, float],
) -> None:
    slots = 8 if rooms else 1
    found = spread(TWO, lanes=SLOW, slots=slots, lag=0.9, rooms=rooms)
    assert list(found) == [("", N)]


def test_a_lane_does_not_stand_back_for_its_batches_of_another_priority() -> None:
    due = {("", N): 900, ("news", N): 900}
    found = spread(due, {("", B): 3}, turns={("news", N): 1})
    assert list(found) == [("", N)]


def test_of_very_many_lanes_each_takes_less() -> None:
    rates = {f"d{number}.example": Rate(10, 1) for number in range(100)}
    lanes = Lanes(domains=rates)
    few: dict[LaneKey, DueEmails | int] = {(f"@d{number}.example", N): 900 for number in range(10)}
    many: dict[LaneKey, DueEmails | int] = {(f"@{domain}", N): 900 for domain in rates}
    assert [size for _, size in spread(few, lanes=lanes, slots=1).values()] == [10 * HORIZON]
    assert [size for _, size in spread(many, lanes=lanes, slots=1).values()] == [10 * ROUND / 100]


def test_turns_are_numbered_by_the_sweep() -> None:
    turns = Turns()
    turns.note([("a", N), ("c", N), ("b", U)])
    last = turns.last
    assert 0 < last["b", U] < last["a", N] == last["c", N], "the most urgent has its turn first"
    turns.note([])
    turns.note([("b", U)])
    assert turns.last["b", U] > last["a", N]


def test_no_thread_s_turn_is_lost() -> None:
    turns, ways = Turns(), [(f"lane{number}", N) for number in range(2_000)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(turns.note, [way]) for way in ways]:
                future.result()
    finally:
        sys.setswitchinterval(interval)
    assert turns.last.keys() == set(ways)
    assert len(set(turns.last.values())) == len(ways)


def test_the_child_of_a_fork_notes_turns_though_a_thread_of_its_parent_did() -> None:
    turns = Turns()
    turns._lock.acquire()
    turns.after_fork()
    turns.note([("a", N)])
    assert ("a", N) in turns.last


def test_of_too_many_ways_those_are_forgotten_whose_turn_is_the_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outbox.worker.together.turns._MOST", 4)
    turns = Turns()
    for name in "abcdeab":
        turns.note([(name, N)])
    assert {lane for lane, _ in turns.last} == {"d", "e", "a", "b"}


RATES = st.sampled_from([Rate(1, 1), Rate(3, 1), Rate(20, 1), Rate(100, 1)])
PLAIN = ["", "news", "shop"]
ROUTES: dict[str, dict[str, Rate]] = {route: {} for route in PLAIN}
BATCH_TAKES = BATCH * 0.02 + 1.0  # seconds, where it waits for no permits


def takes(rate: Rate) -> float:
    """Return the seconds of a rate's batch: it waits for all it has claimed, window by window.

    Each wait for permits is `MARGIN` longer.
    """
    windows = HORIZON * rate.permits / rate.seconds / rate.chunk
    return HORIZON + 2.0 + windows * MARGIN


@pytest.mark.long
@pytest.mark.over_and_over
@given(
    rated=st.lists(RATES, max_size=6),
    plain=st.integers(1, 3),
    slots=st.integers(1, 4),
    processes=st.integers(1, 4),
    cap=st.sampled_from([None, 1, 2]),
    ages=st.lists(st.floats(0.0, 9000.0), min_size=9, max_size=9),
    seed=st.integers(0, 99),
)
def test_every_lane_has_a_batch_in_each_round(
    rated: list[Rate],
    plain: int,
    slots: int,
    processes: int,
    cap: int | None,
    ages: list[float],
    seed: int,
) -> None:
    """A process claims from each lane once, before it claims from any lane twice."""
    domains = {f"d{number}": rate for number, rate in enumerate(rated)}
    names = [*PLAIN[:plain], *(f"@{domain}" for domain in domains)]
    shop = Rounds(
        ways={(name, N): age for name, age in zip(names, ages, strict=False)},
        lanes=Lanes(domains=domains, routes=ROUTES),
        slots=slots,
        processes=processes,
        caps={"": cap} if cap else {},
        seed=seed,
    )
    a_round = plain * BATCH_TAKES + sum(map(takes, rated))
    shop.play(2 * processes * a_round)
    for way in shop.ways:
        assert shop.longest_wait(way) <= processes * a_round, way
    assert shop.most <= slots


@pytest.mark.long
def test_rates_are_kept_busy_where_there_is_a_slot_for_each_lane() -> None:
    rates = {"a": Rate(20, 1), "b": Rate(5, 1), "c": Rate(100, 1)}
    ways = {("@a", N): 600.0, ("@b", N): 60.0, ("@c", N): 6.0, ("", N): 0.0}
    shop = Rounds(ways=ways, lanes=Lanes(domains=rates), slots=8, processes=8, seconds=0.005)
    shop.play(60.0)
    for domain, rate in rates.items():
        sent = len(shop.sent[f"@{domain}", N])
        assert 0.95 * rate.within(60) <= sent <= rate.within(61.0), domain


def test_a_slow_domain_does_not_slow_down_a_newsletter_in_one_slot() -> None:
    """A slot for both: one sleeps for its permits, and the other has its turn in between."""
    ways = {("@slow.example", N): 6000.0, ("", N): 0.0}
    shop = Rounds(ways=ways, lanes=SLOW)
    shop.play(60.0)
    assert len(shop.sent["", N]) >= 1000
    assert len(shop.sent["@slow.example", N]) >= 50
