"""A plan can be repeated, shows every kind, and leaves nothing broken."""

from __future__ import annotations

import pytest

from tests.soak.faults import PLAYS
from tests.soak.plan import KINDS, draw

MINUTES = (2, 30)


@pytest.mark.parametrize("minutes", MINUTES)
def test_each_kind_comes_and_everything_is_mended_before_the_end(minutes: int) -> None:
    plan = draw(1, minutes * 60, every=4, hosts=3, beats=2)
    assert {fault.kind for fault in plan} == set(KINDS)
    assert all(fault.at + fault.seconds <= minutes * 60 for fault in plan)
    assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


def test_half_an_hour_has_more_than_three_hundred_kills_and_faults() -> None:
    assert min(len(draw(seed, 1800, every=4, hosts=3, beats=2)) for seed in range(20)) > 350


def test_the_seed_repeats_the_plan_and_another_one_does_not() -> None:
    assert draw(7, 300, every=4, hosts=3, beats=2) == draw(7, 300, every=4, hosts=3, beats=2)
    assert draw(7, 300, every=4, hosts=3, beats=2) != draw(8, 300, every=4, hosts=3, beats=2)


def test_no_target_is_hit_while_it_is_down() -> None:
    until: dict[str, float] = {}
    for fault in draw(3, 1800, every=4, hosts=3, beats=2):
        assert until.get(fault.target, 0.0) <= fault.at
        until[fault.target] = fault.at + fault.seconds


def test_every_kind_can_be_played() -> None:
    assert set(PLAYS) == set(KINDS)
