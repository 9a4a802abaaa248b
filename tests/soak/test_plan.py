"""A plan can be repeated, shows every kind, and leaves nothing broken."""

from __future__ import annotations

import pytest

from tests.soak.classes import REPLIES
from tests.soak.hosts.faults import PLAYS
from tests.soak.plan import CHILD, EVERY, KINDS, TRAITS, draw

MINUTES = (2, 30)


@pytest.mark.parametrize("minutes", MINUTES)
def test_each_kind_comes_and_everything_is_mended_before_the_end(minutes: int) -> None:
    for seed in range(50 // minutes):
        plan = draw(seed, minutes * 60, every=EVERY, hosts=3, beats=2, workers=4)
        assert {fault.kind for fault in plan} == set(KINDS)
        assert all(fault.at + fault.seconds <= minutes * 60 for fault in plan)
        assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


def test_half_an_hour_has_more_than_three_hundred_kills_and_faults() -> None:
    assert (
        min(len(draw(seed, 1800, every=4, hosts=3, beats=2, workers=4)) for seed in range(20)) > 350
    )


def test_the_seed_repeats_the_plan_and_another_one_does_not() -> None:
    assert draw(7, 300, every=4, hosts=3, beats=2, workers=4) == draw(
        7, 300, every=4, hosts=3, beats=2, workers=4
    )
    assert draw(7, 300, every=4, hosts=3, beats=2, workers=4) != draw(
        8, 300, every=4, hosts=3, beats=2, workers=4
    )


def test_no_target_is_hit_while_it_is_down() -> None:
    until: dict[str, float] = {}
    for fault in draw(3, 1800, every=4, hosts=3, beats=2, workers=4):
        assert until.get(fault.target, 0.0) <= fault.at
        until[fault.target] = fault.at + fault.seconds


def test_every_kind_can_be_played() -> None:
    assert set(PLAYS) == set(KINDS)


def test_the_worker_beyond_the_hosts_is_hit_too_but_it_has_no_child_to_be_killed() -> None:
    plan = draw(3, 1800, every=4, hosts=3, beats=2, workers=4)
    hit = {fault.kind for fault in plan if fault.target == "worker 4"}
    assert hit == {kind for kind, of in KINDS.items() if of.target == "worker"} - {CHILD}


def test_each_class_is_refused_with_each_of_its_replies() -> None:
    plan = [f for seed in range(5) for f in draw(seed, 1800, every=4, hosts=3, beats=2, workers=4)]
    for kind, trait in TRAITS.items():
        drawn = {(f.detail["place"], f.detail["reply"]) for f in plan if f.kind == kind}
        assert drawn == set(REPLIES[trait])
