"""What a worker's row means, which dead worker is missed, and how many slots there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

import pytest

from outbox.domain import fleet
from outbox.domain.fleet import (
    DEFAULT_SLOTS,
    LIVING,
    SILENT,
    LastBeat,
    ProcessId,
    WorkerState,
    slots,
    state_of,
)

BUSY, IDLE, DEAD = WorkerState.BUSY, WorkerState.IDLE, WorkerState.DEAD
STOPPED = WorkerState.STOPPED
_names = map(str, count())
Life: TypeAlias = tuple[LastBeat, WorkerState]


def beat(seen: float, **changes: Any) -> LastBeat:
    """Return the last beat of a worker that was seen so many seconds ago."""
    plain = LastBeat(
        name="w", pool="prefork", queues=("all",), tasks=0, process=ProcessId("", 1, 1),
        started_seconds=100.0, seen_seconds=seen, is_stopped=False,
    )  # fmt: skip
    return replace(plain, **changes)


def state(
    seen: float = 1.0, *, is_stopped: bool = False, is_gone: bool = False, tasks: int = 0
) -> WorkerState:
    return state_of(beat(seen, is_stopped=is_stopped, tasks=tasks), is_gone=is_gone)


def life(
    started: float, seen: float, state: WorkerState, place: str = "all", name: str = ""
) -> Life:
    """Return a worker's life, under a name that no other one has unless it is given."""
    name = name or next(_names)
    return beat(seen, started_seconds=started, queues=(place,), name=name), state


def missed(lives: list[Life]) -> list[int]:
    return fleet.missed([one for one, _ in lives], [state for _, state in lives])


def test_a_worker_that_is_seen_is_busy_or_idle_and_one_that_is_not_is_silent_and_then_dead() -> (
    None
):
    assert (state(tasks=2), state()) == (BUSY, IDLE)
    assert (state(SILENT), state(SILENT + 0.1, tasks=2)) == (IDLE, WorkerState.SILENT)
    assert (state(LIVING), state(LIVING + 0.1)) == (WorkerState.SILENT, DEAD)


def test_a_process_that_is_gone_is_dead_at_once_unless_it_said_that_it_stops() -> None:
    assert state(is_gone=True, tasks=1) is DEAD
    assert state(LIVING + 1, is_stopped=True, is_gone=True) is WorkerState.STOPPED


def test_only_a_worker_that_is_busy_idle_or_silent_lives() -> None:
    assert [one for one in WorkerState if one.is_living] == [BUSY, IDLE, WorkerState.SILENT]


def test_a_dead_worker_is_missed_until_a_later_one_takes_its_place() -> None:
    dead = life(1000, 60, DEAD)
    assert missed([dead]) == [0]
    assert missed([life(1000, 1, BUSY), dead]) == [1], "it ran beside the dead one"
    assert missed([life(30, 1, BUSY, place="bulk"), dead]) == [1], "it listens elsewhere"
    assert missed([life(30, 1, BUSY), dead]) == []


def test_one_worker_takes_the_place_of_one_dead_worker_only() -> None:
    dead = [life(1000, seen, DEAD) for seen in (60, 70)]
    assert missed([*dead, life(20, 1, IDLE)]) == [1]
    assert missed([*dead, life(20, 1, IDLE), life(10, 1, IDLE)]) == []


def test_whoever_is_killed_again_and_again_is_not_missed_once_its_name_runs_again() -> None:
    killed = [life(seen + 90, seen, DEAD, name="w") for seen in (100, 200, 300)]
    assert missed([*killed]) == [0], "only the last one is missed"
    assert missed([life(50, 1, IDLE, name="w"), *killed]) == []
    assert missed([life(90, 60, STOPPED, name="w"), *killed]) == [], "a person stopped it"
    assert missed([life(90, 60, STOPPED), *killed]) == [1], "that was another one"


class Compared(str):
    """A name that counts how often names are compared."""

    times = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_a_thousand_deaths_are_not_compared_with_one_another() -> None:
    killed = [life(seen + 9, seen, DEAD, name=Compared("w")) for seen in range(10, 10_000, 10)]
    assert missed(killed) == [0]
    assert missed([life(5, 1, IDLE, name=Compared("w")), *killed]) == []
    assert Compared.times < 20 * len(killed)


def test_a_worker_that_died_before_its_second_beat_is_missed() -> None:
    assert missed([life(60, 60, DEAD, name="w")]) == [0]


def test_a_worker_that_was_started_again_takes_the_place_of_no_other() -> None:
    again = life(30, 1, IDLE, name="w")
    assert missed([again, life(900, 60, DEAD, name="w"), life(900, 50, DEAD)]) == [2]


@pytest.mark.parametrize(
    ("living", "most", "found"),
    [(0, None, DEFAULT_SLOTS), (0, 9, 9), (6, None, 6), (6, 9, 6), (6, 2, 2)],
)
def test_the_living_workers_have_their_slots_and_outbox_slots_bounds_them(
    living: int, most: int | None, found: int
) -> None:
    assert slots(living, most) == found
