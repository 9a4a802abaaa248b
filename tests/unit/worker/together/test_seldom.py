"""What is done seldom is due at first, and then after a while: each thing for itself."""

from __future__ import annotations

from math import inf

from outbox.worker.together.seldom import Seldom


def test_a_thing_is_due_at_first_and_again_after_its_seconds() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)
    assert [seldom.is_due("fold", 5.0), seldom.is_due("fold", 5.0)] == [True, False]
    assert seldom.is_due("tell", 5.0), "each thing for itself"
    now = 4.9
    assert not seldom.is_due("fold", 5.0)
    now = 5.0
    assert [seldom.is_due("fold", 5.0), seldom.is_due("fold", 5.0)] == [True, False]


def test_what_is_asked_with_another_pace_goes_by_the_same_moment() -> None:
    now = 100.0
    seldom = Seldom(lambda: now)
    assert seldom.is_due("fold", 5.0)
    now += 10.0
    assert [seldom.is_due("fold", 60.0), seldom.is_due("fold", 5.0)] == [False, True]


def test_what_is_due_once_stays_done() -> None:
    now = 100.0
    seldom = Seldom(lambda: now)
    assert seldom.is_due("compare", inf)
    now += 1e9
    assert not seldom.is_due("compare", inf)


def test_what_is_forgotten_is_due_at_once() -> None:
    seldom = Seldom(lambda: 100.0)
    assert seldom.is_due("fold", inf)
    seldom.forget("fold")
    seldom.forget("tell")  # it was never done
    assert [seldom.is_due("fold", inf), seldom.is_due("fold", inf)] == [True, False]


def test_what_took_a_while_rests_from_its_end() -> None:
    now = 100.0
    seldom = Seldom(lambda: now)
    assert seldom.is_due("fold", 5.0)
    now += 4.0
    seldom.note("fold")
    now += 4.0
    assert not seldom.is_due("fold", 5.0)
    now += 1.0
    assert seldom.is_due("fold", 5.0)
