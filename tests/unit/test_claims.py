"""How the due mails are spread over the free slots."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outbox.domain.claims import Share, share
from outbox.domain.priority import Priority

SLOW = [HealthCheck.too_slow]  # no time decides

U, N, B = Priority.URGENT, Priority.NORMAL, Priority.BULK


def by_priority(shares: tuple[Share, ...]) -> dict[Priority, tuple[int, int]]:
    return {s.priority: (s.batches, s.size) for s in shares}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    slots = draw(st.integers(1, 16))
    in_flight = draw(st.integers(0, slots + 3))  # urgent batches and rescues may exceed the slots
    window = draw(st.integers(1, 50))
    return {
        "due": draw(st.dictionaries(st.sampled_from(Priority), st.integers(0, 5000))),
        "free": slots - in_flight,
        "slots": slots,
        "urgent_in_flight": draw(st.integers(0, in_flight)),
        "batch": draw(st.integers(window, 300)),
        "window": window,
    }


@settings(deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_never_more_than_is_free_but_for_one_urgent_batch(case: dict) -> None:  # type: ignore[type-arg]
    batches = {s.priority: s.batches for s in share(**case)}
    free = case["free"]
    assert batches.pop(U, 0) <= max(free, 1)
    assert sum(s.batches for s in share(**case)) <= max(free, 1)
    if free <= 0:
        assert not batches


@settings(deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_bulk_leaves_one_slot_where_there_are_two_or_more(case: dict) -> None:  # type: ignore[type-arg]
    shares = share(**case)
    if any(s.priority is B for s in shares) and case["slots"] > 1:
        assert sum(s.batches for s in shares) <= case["free"] - 1


@settings(deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_a_batch_is_never_over_its_size_nor_empty(case: dict) -> None:  # type: ignore[type-arg]
    for part in share(**case):
        due = case["due"][part.priority]
        assert 1 <= part.size <= case["batch"]
        assert part.size >= case["window"]
        assert part.batches >= 1
        assert (part.batches - 1) * part.size < due, "a claim that would surely find nothing"


@settings(deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_all_that_is_due_is_covered_where_there_is_room(case: dict) -> None:  # type: ignore[type-arg]
    made = by_priority(share(**case))
    room = case["free"]
    for priority in Priority:
        due = case["due"].get(priority, 0)
        batches, size = made.get(priority, (0, 0))
        least = max(room, 1) if priority is U and not case["urgent_in_flight"] else room
        if priority is B and case["slots"] > 1:
            least = room - 1
        assert batches * size >= min(due, max(least, 0) * case["batch"])
        room -= batches


@settings(deadline=None, suppress_health_check=SLOW)
@given(cases())
def test_the_shares_come_urgent_first_and_each_priority_once(case: dict) -> None:  # type: ignore[type-arg]
    priorities = [s.priority for s in share(**case)]
    assert priorities == sorted(set(priorities))


def plan(
    due: dict[Priority, int], free: int = 4, urgent: int = 0
) -> dict[Priority, tuple[int, int]]:
    shares = share(due, free=free, slots=4, urgent_in_flight=urgent, batch=200, window=20)
    return by_priority(shares)


def test_a_small_backlog_is_spread_over_the_slots() -> None:
    assert plan({N: 100}) == {N: (4, 25)}


def test_a_very_small_backlog_is_one_window() -> None:
    assert plan({N: 20}) == {N: (1, 20)}
    assert plan({N: 1}) == {N: (1, 20)}


def test_a_large_backlog_fills_every_slot_with_whole_batches() -> None:
    assert plan({N: 100_000}) == {N: (4, 200)}


def test_an_urgent_mail_goes_out_though_every_slot_is_taken() -> None:
    assert plan({U: 1, N: 500, B: 500}, free=0) == {U: (1, 20)}
    assert plan({U: 1}, free=-2) == {U: (1, 20)}


def test_a_second_urgent_batch_waits_for_a_slot() -> None:
    assert plan({U: 1}, free=0, urgent=1) == {}
    assert plan({U: 1}, free=1, urgent=1) == {U: (1, 20)}


def test_urgent_comes_before_normal_and_normal_before_bulk() -> None:
    assert plan({U: 1, N: 1, B: 100_000}) == {U: (1, 20), N: (1, 20), B: (1, 200)}


def test_bulk_alone_takes_all_slots_but_one() -> None:
    assert plan({B: 100_000}) == {B: (3, 200)}
    assert plan({B: 100_000}, free=1) == {}


def test_bulk_takes_the_only_slot_where_there_is_one() -> None:
    shares = share({B: 9}, free=1, slots=1, urgent_in_flight=0, batch=200, window=20)
    assert by_priority(shares) == {B: (1, 20)}


def test_nothing_due_is_nothing_to_claim() -> None:
    assert plan({}) == {}
    assert plan({U: 0, N: 0, B: 0}) == {}
