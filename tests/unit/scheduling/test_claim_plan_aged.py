"""Mail that has waited too long: whatever is more urgent, some of it is on its way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import AGED, DueEmails, InFlight, LaneKey
from outbox.domain.scheduling.claim_planner import plan_claims
from outbox.domain.scheduling.lanes import Lanes
from tests.unit.scheduling.test_claim_plan import B, N, U, cases, free, made, spread

OLD = DueEmails(emails=100_000, age=AGED + 1)


def test_bulk_that_has_waited_too_long_goes_out_though_normal_email_takes_every_slot() -> None:
    busy = {("", N): 4}
    assert spread({("", N): 500, ("", B): 100_000}, busy) == {}
    assert spread({("", N): 500, ("", B): OLD}, busy) == {("", B): (1, 20)}


@pytest.mark.parametrize("slots", [1, 4])
def test_normal_email_gets_its_slot_beside_bulk_that_has_waited_too_long(slots: int) -> None:
    found = spread({("", N): 500, ("", B): OLD}, {("", N): slots - 1}, slots=slots)
    assert found == {("", N): (1, 200), ("", B): (1, 20)}


def test_no_more_than_one_window_of_bulk_that_has_waited_too_long_is_in_flight() -> None:
    assert spread({("", N): 500, ("", B): OLD}, {("", N): 4, ("", B): 1}) == {}


def test_normal_email_that_has_waited_too_long_goes_out_though_urgent_takes_every_slot() -> None:
    busy = {("", U): 4}
    assert spread({("", U): 500, ("", N): 500, ("", B): OLD}, busy) == {("", B): (1, 20)}
    assert spread({("", U): 500, ("", N): OLD}, busy) == {("", N): (1, 20)}
    found = spread({("", U): 500, ("", N): OLD, ("", B): OLD}, busy)
    assert found == {("", N): (1, 20), ("", B): (1, 20)}
    assert spread({("", U): 500, ("", N): OLD}, {("", U): 4, ("", N): 1}) == {}


PRIORITIES = st.sets(st.sampled_from(Priority), min_size=1)


@given(cases(), PRIORITIES)
def test_of_no_priority_all_waits_for_long_and_nothing_is_on_its_way(
    case: dict[str, Any], aged: set[Priority]
) -> None:
    """Whatever is more urgent: one batch is in flight, or made. It is one window over the slots."""
    case["due"] |= {("", priority): OLD for priority in aged}
    shares = made(case)
    moving = {s.priority for s in shares} | {priority for _, priority in case["flight"]}
    assert moving >= aged
    beyond = sum(s.batches for s in shares) - max(free(case), 0)
    assert beyond <= len(aged | {U})


@pytest.mark.long
@pytest.mark.over_and_over
@given(st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(1, 900), min_size=1, max_size=30))
def test_urgent_email_without_end_leaves_some_of_the_rest_its_way(
    slots: int, rounds: int, urgent: list[int]
) -> None:
    """Batches take some rounds of ten seconds each; urgent email waits at the end of each round."""
    flying: list[tuple[LaneKey, int, int]] = []  # the way, its emails, and the rounds that are left
    oldest = dict.fromkeys((N, B), 0.0)
    for number in range(200):
        due = {("", U): DueEmails(emails=urgent[number % len(urgent)])}
        due |= {("", which): DueEmails(emails=100_000, age=age) for which, age in oldest.items()}
        flight = {
            way: InFlight(batches=sum(w == way for w, *_ in flying), emails=20)
            for way in {way for way, *_ in flying}
        }
        for part in plan_claims(
            due, flight, lanes=Lanes(), lags={}, slots=slots, batch=200, window=20
        ):
            way = (part.lane, part.priority)
            flying += [(way, part.size, rounds)] * part.batches
            oldest |= {part.priority: 0.0} if part.priority in oldest else {}
        flying = [(way, emails, left - 1) for way, emails, left in flying if left > 1]
        oldest = {which: age + 10.0 for which, age in oldest.items()}
        assert len(flying) <= slots + 3
        assert max(oldest.values()) <= AGED + 10.0 * (rounds + 1)


def test_old_bulk_takes_its_usual_slots_where_they_are_free() -> None:
    assert spread({("", B): OLD}) == {("", B): (4, 200)}


def test_old_bulk_without_a_server_does_not_hold_back_that_of_another_route() -> None:
    due = {("news", B): DueEmails(emails=9, age=AGED + 9), ("", B): OLD}
    busy = {("", N): 4}
    assert spread(due, busy) == {("news", B): (1, 20)}
    assert spread(due, busy, rooms={"news": 0}) == {("", B): (1, 20)}
