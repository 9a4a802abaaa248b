"""Neither a rate nor a server that more urgent email fills keeps other email waiting for ever."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.domain.scheduling.claim_plan import AGED, DueEmails, InFlight, LaneKey
from outbox.domain.scheduling.lanes import Lanes
from outbox.domain.scheduling.overdue import is_kept_out, spared
from outbox.domain.scheduling.token_bucket import Rate
from outbox.worker.together.turns import Turns
from tests.support.rounds import Rounds
from tests.unit.scheduling.test_claim_plan import LIMITED, B, N, U, spread

OLD = DueEmails(emails=100, age=AGED + 1)
YOUNG = DueEmails(emails=100, age=AGED - 1)
BUSY: dict[LaneKey, DueEmails | int] = {("", N): 10_000}


def test_old_bulk_goes_though_normal_email_uses_up_the_rate() -> None:
    due, flight = {**BUSY, ("", B): OLD}, {("", N): 1}
    found = spread(due, flight, lanes=LIMITED, lag=0.1, emails=8)
    assert found == {("", N): (1, 8), ("", B): (1, 1)}
    due |= {("", B): YOUNG}
    assert ("", B) not in spread(due, flight, lanes=LIMITED, lag=0.1, emails=8)


def test_old_bulk_gets_a_place_on_a_server_that_normal_email_fills() -> None:
    due, rooms = {**BUSY, ("", B): OLD}, {"": 2}
    assert spread(due, {("", N): 2}, slots=8, rooms=rooms) == {}, "no place is free"
    assert spread(due, {("", N): 1}, slots=8, rooms=rooms) == {("", B): (1, 20)}
    assert spread(due, {("", N): 1, ("", B): 1}, slots=8, rooms=rooms) == {}
    assert spread(due, {("", N): 1}, slots=8, rooms={"": 3}) == {
        ("", N): (1, 200),
        ("", B): (1, 20),
    }


def test_then_the_more_urgent_email_has_its_turn_first() -> None:
    due, rooms = {**BUSY, ("", B): OLD}, {"": 1}
    assert list(spread(due, rooms=rooms)) == [("", N)], "nothing has had a turn"
    assert list(spread(due, rooms=rooms, turns={("", N): 1})) == [("", B)]
    assert list(spread(due, rooms=rooms, turns={("", N): 1, ("", B): 2})) == [("", N)]
    assert list(spread(due, rooms=rooms, turns={("", N): 3, ("", B): 2})) == [("", B)]


def test_between_two_windows_that_go_first_the_most_urgent_email_has_a_turn() -> None:
    due: dict[LaneKey, DueEmails | int] = {("", U): 9, ("", N): OLD, ("", B): OLD}
    turns = {("", U): 1}
    order = []
    for number in range(2, 9):
        (way,) = spread(due, rooms={"": 1}, turns=turns)
        turns[way] = number
        order.append(way[1])
    assert order == [N, U, B, U, N, U, B] or order == [B, U, N, U, B, U, N]


def test_it_takes_a_free_slot_where_email_of_its_priority_goes_elsewhere() -> None:
    due: dict[LaneKey, DueEmails | int] = {**BUSY, ("", B): OLD, ("news", B): OLD}
    rooms = {"": 2}
    assert spread(due, {("", N): 1, ("news", B): 7}, slots=8, rooms=rooms) == {}
    found = spread(due, {("", N): 1, ("news", B): 6}, slots=8, rooms=rooms)
    assert found == {("", B): (1, 20)}


def test_the_last_place_on_a_server_goes_to_one_of_two_that_lack_two_rates() -> None:
    rates = {"a.example": Rate(10, 1), "b.example": Rate(10, 1)}
    lanes = Lanes(routes={"": {}, "news": {}}, domains=rates)
    due: dict[LaneKey, DueEmails | int] = {("@a.example", B): OLD, ("@b.example", B): OLD}
    fills = {("news@a.example", N): 1, ("news@b.example", N): 1}
    for places in 0, 1, 2:
        found = spread(due, fills, lanes=lanes, lag=0.1, slots=8, rooms={"": places})
        assert len(found) == places


def test_after_a_window_that_was_claimed_with_more_urgent_email_that_has_its_turn() -> None:
    due, turns = {**BUSY, ("", B): OLD}, Turns()
    turns.note([("", N)])
    both = spread(due, {("", N): 1}, lanes=LIMITED, lag=0.1, emails=8, turns=turns.last)
    assert both == {("", N): (1, 8), ("", B): (1, 1)}
    turns.note(both)
    assert ("", B) not in spread(
        due, {("", N): 2}, lanes=LIMITED, lag=0.1, emails=8, turns=turns.last
    )
    turns.note([("", N)])
    assert ("", B) in spread(due, {("", N): 2}, lanes=LIMITED, lag=0.1, emails=8, turns=turns.last)


def test_a_server_that_takes_nothing_gets_nothing() -> None:
    due = {**BUSY, ("", B): OLD}
    assert spread(due, {("", N): 1}, rooms={"": 0}) == {}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "shop",
    [
        {"lanes": LIMITED},
        {"lanes": Lanes(rate=Rate(50, 1))},
        {"lanes": Lanes(rate=Rate(20, 60)), "most": 240.0},
        {"caps": {"": 1}},
        {"caps": {"": 2}, "slots": 8},
        {"slots": 1, "processes": 1},
        {},
        {"lanes": LIMITED, "slots": 1, "processes": 1},
        {"lanes": Lanes(rate=Rate(100, 60)), "slots": 1, "processes": 1},
        {"lanes": Lanes(rate=Rate(20, 1)), "slots": 2, "processes": 2},
    ],
    ids=[
        "8 a second",
        "50 a second",
        "20 a minute",
        "a cap of 1",
        "a cap of 2",
        "a slot",
        "slots",
        "8 a second and a slot",
        "100 a minute and a slot",
        "20 a second and 2 slots",
    ],
)
def test_beside_urgent_email_without_end_some_of_the_rest_goes(
    shop: dict[str, Any], seed: int
) -> None:
    """And of the urgent email at least as much goes as of both others together."""
    shop = {"slots": 4, "processes": 4, "most": 60.0, **shop}
    most = shop.pop("most")
    rounds = Rounds(ways=dict.fromkeys([("", U), ("", N), ("", B)], AGED), seed=seed, **shop)
    rounds.play(max(180.0, 1.25 * most))
    for priority in (N, B):
        assert rounds.longest_wait(("", priority)) <= most, priority
    urgent, rest = (sum(len(rounds.sent["", one]) for one in some) for some in ((U,), (N, B)))
    if rounds.caps or rounds.lanes.rate:  # what goes beyond the slots takes nothing away
        assert urgent >= 0.8 * rest


@pytest.mark.long
@pytest.mark.parametrize("rate", [Rate(8, 1), Rate(2, 1), Rate(100, 60), Rate(20, 60)], ids=str)
def test_one_process_sends_old_bulk_behind_normal_email_at_any_rate(rate: Rate) -> None:
    ways = {("", N): AGED, ("", B): AGED}
    shop = Rounds(ways=ways, lanes=Lanes(rate=rate), slots=1, processes=1)
    shop.play(300.0)
    assert shop.longest_wait(("", B)) <= max(30.0, 20 * rate.interval)
    assert len(shop.sent["", N]) >= 0.8 * len(shop.sent["", B])


@pytest.mark.long
def test_email_of_a_domain_whose_rate_urgent_email_uses_up_goes_beside_other_email() -> None:
    lanes = Lanes(domains={"slow.example": Rate(20, 1)})
    ways = {("@slow.example", U): 600.0, ("@slow.example", N): 600.0, ("", N): 600.0}
    shop = Rounds(ways=ways, lanes=lanes, slots=4, processes=4)
    shop.play(200.0)
    assert shop.longest_wait(("@slow.example", N)) <= 30.0
    assert len(shop.sent["@slow.example", U]) >= 0.6 * 20 * 200


@pytest.mark.long
def test_bulk_on_a_full_server_goes_though_other_bulk_is_always_on_its_way() -> None:
    ways = {("", N): 600.0, ("", B): 600.0, ("news", B): 600.0}
    lanes = Lanes(routes={"": {}, "news": {}})
    shop = Rounds(ways=ways, lanes=lanes, slots=8, processes=8, caps={"": 2})
    shop.play(200.0)
    assert shop.longest_wait(("", B)) <= 10.0
    assert len(shop.sent["", N]) >= 3 * len(shop.sent["", B])


def flight(**batches: tuple[int, int]) -> dict[LaneKey, InFlight]:
    names = {"u": ("", U), "n": ("", N), "b": ("", B), "other": ("other", N)}
    return {names[name]: InFlight(batches=n, emails=e) for name, (n, e) in batches.items()}


ROUTES = Lanes(rate=None, routes={"": {"route:": Rate(10, 1)}, "other": {}})


def test_only_the_one_batch_beside_urgent_email_without_end_is_kept_out() -> None:
    full, own = (2, 20), (1, 1)
    assert is_kept_out(("", N), flight(u=full, n=own), [""], ROUTES)
    assert is_kept_out(("", N), flight(u=full, n=own, other=(3, 9)), [""], ROUTES)
    assert not is_kept_out(("", N), flight(u=full, n=own, b=own), [""], ROUTES)
    assert not is_kept_out(("", N), flight(u=full, n=(2, 2)), [""], ROUTES)


def test_urgent_email_that_comes_to_an_end_keeps_nobody_out() -> None:
    assert not is_kept_out(("", N), flight(u=(2, 9), n=(1, 1)), [""], ROUTES)
    assert not is_kept_out(("", N), flight(u=(2, 20), n=(1, 1)), [], ROUTES)
    assert not is_kept_out(("", N), flight(u=(2, 20), n=(1, 1)), ["other"], ROUTES)
    assert not is_kept_out(("other", N), flight(u=(2, 20), other=(1, 1)), [""], ROUTES)


def test_a_window_that_waits_for_permits_does_not_give_way_to_urgent_email_without_end() -> None:
    own = (1, 1)
    spares = spared(("", N), flight(u=(1, 10), n=own), [""], ROUTES)
    assert spares(("", U))
    assert not spares(("other", U)), "it may go at once"
    for urgent, waiting in (9, [""]), (10, []), (10, ["other"]):
        assert not spared(("", N), flight(u=(1, urgent), n=own), waiting, ROUTES)(("", U))
    assert not spared(("", N), flight(u=(1, 10), n=own, b=own), [""], ROUTES)(("", U))


def test_nor_does_bulk_give_way_to_normal_email_that_waits_for_the_same_permits() -> None:
    spares = spared(("", B), {}, [], ROUTES)
    assert spares(("", N))
    assert not spares(("other", N))
    assert not spares(("", U))
    assert spared(("other", B), {}, [], ROUTES, {"server:a": Rate(1, 1)})(("other", N))


def test_a_server_s_own_rate_counts_for_all_lanes_of_its_route() -> None:
    beside = {"server:a": Rate(10, 1)}
    lanes = Lanes()
    assert is_kept_out(("", N), flight(u=(2, 20), n=(1, 1)), [""], lanes, beside)
    assert not is_kept_out(("", N), flight(u=(2, 20), n=(1, 1)), [""], lanes)
