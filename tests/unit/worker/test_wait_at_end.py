"""How long a process waits at its end for what its batches have left."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from billiard.pool import EX_RECYCLE

from outbox.worker.process import kept_threads, runtime, shutdown
from outbox.worker.process.kept_threads import AWAY, HELD, LOOK, wait_at_end
from outbox.worker.process.retry_writes import GRACE


class Never:
    """Is never done, and has a clock of its own: a double, for nobody waits ten minutes here."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done_at = 1e6

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.done_at


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Never:
    left = Never()
    monkeypatch.setattr(kept_threads, "monotonic", lambda: left.now)
    return left


def waited(left: Never, *, is_asked: bool, is_away: Callable[[], bool]) -> float:
    assert not wait_at_end([left], is_asked=is_asked, is_away=is_away)
    return left.now


@pytest.mark.parametrize(
    ("is_asked", "is_away", "bound"),
    [(True, False, GRACE), (True, True, GRACE), (False, False, HELD), (False, True, AWAY)],
)
def test_it_has_a_bound(left: Never, is_asked: bool, is_away: bool, bound: float) -> None:
    seconds = waited(left, is_asked=is_asked, is_away=lambda: is_away)
    assert bound < seconds <= bound + LOOK


def test_a_database_that_comes_back_leaves_no_more_than_a_row_has(left: Never) -> None:
    back = 2 * HELD
    assert back <= waited(left, is_asked=False, is_away=lambda: left.now < back) <= back + 2 * LOOK


def test_whoever_is_asked_meanwhile_has_the_grace_from_then_on(
    left: Never, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = HELD / 2
    monkeypatch.setattr(shutdown, "requested", lambda: left.now > asked)
    end = asked + GRACE
    assert end < waited(left, is_asked=False, is_away=lambda: True) <= end + 3 * LOOK


def test_it_ends_as_soon_as_all_is_done(left: Never) -> None:
    left.done_at = GRACE / 2
    assert wait_at_end([left, left], is_asked=True, is_away=lambda: True)
    assert left.now <= left.done_at + 2 * LOOK


def test_a_process_that_has_had_its_tasks_is_known_by_its_code() -> None:
    assert runtime.RECYCLED == EX_RECYCLE
