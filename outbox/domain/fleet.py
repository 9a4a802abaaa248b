"""What a worker's row in the table means: it is at work, silent, dead or stopped. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

EVERY = 10.0
"""Seconds from one renewal of a worker's row to the next."""

SILENT = 25.0
"""Seconds after the last renewal from which on a worker is silent: two renewals are missing."""

LIVING = 45.0
"""Seconds after the last renewal for which a worker counts as living, and its slots count."""

STILL = 20.0
"""Seconds without a task, beside two intervals of beat, after which the workers get none. Their
marks are up to ten seconds apart, and a sweep may run some seconds behind."""

KEPT = 86_400.0
"""Seconds for which the row of a dead or stopped worker is kept: people want to know who it was."""

DEFAULT_SLOTS = 4
"""Batches in flight where no living worker is known, as for `flask outbox drain` alone."""

BEAT = "beat"
"""What stands in the place of the pool in the row of a beat."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """What names a process for all time: together these three never come twice."""

    boot: str  # the kernel's boot, and the namespace of its process ids
    pid: int
    start: int  # in clock ticks after the boot


class WorkerState(StrEnum):
    """What is known of a worker."""

    BUSY = "busy"  # it ran a task at its last renewal
    IDLE = "idle"  # it lives, and ran none
    SILENT = "silent"  # its renewals are missing, and it still counts
    DEAD = "dead"  # it has been silent for too long, or its process is gone
    STOPPED = "stopped"  # it was asked to stop, and takes no more tasks

    @property
    def is_living(self) -> bool:
        """Whether the worker counts as one that takes tasks."""
        return self in (WorkerState.BUSY, WorkerState.IDLE, WorkerState.SILENT)


@dataclass(frozen=True, kw_only=True, slots=True)
class LastBeat:
    """What a worker told at its last beat, and how many seconds ago that was."""

    name: str
    pool: str
    queues: tuple[str, ...]
    tasks: int
    process: ProcessId
    started_seconds: float
    seen_seconds: float
    is_stopped: bool


def state_of(worker: LastBeat, *, is_gone: bool) -> WorkerState:
    """Return the state of a worker. `is_gone`: its process is known to have ended."""
    if worker.is_stopped:
        return WorkerState.STOPPED
    if is_gone or worker.seen_seconds > LIVING:
        return WorkerState.DEAD
    if worker.seen_seconds > SILENT:
        return WorkerState.SILENT
    return WorkerState.BUSY if worker.tasks else WorkerState.IDLE


def missed(workers: Sequence[LastBeat], states: Sequence[WorkerState]) -> list[int]:
    """Return the places, in `workers`, of dead ones whose work no later one has taken over.

    A later worker of the same name has taken it over, even if it is dead or stopped by now. A
    living worker of another name, of the same queues, takes the place of one dead worker at most.
    """
    starts = defaultdict[str, list[float]](list)
    for worker in sorted(workers, key=lambda one: one.started_seconds):
        starts[worker.name].append(worker.started_seconds)
    dead = [place for place, state in enumerate(states) if state is WorkerState.DEAD]
    dead.sort(key=lambda place: workers[place].seen_seconds)
    died_first = {workers[place].name: workers[place].seen_seconds for place in dead}
    heirs = [
        one
        for one, state in zip(workers, states, strict=True)
        if state.is_living and one.started_seconds > died_first.get(one.name, -1.0)
    ]
    orphans = [place for place in dead if not _is_followed(workers[place], starts)]
    return sorted(place for place in orphans if not _inherits(heirs, workers[place]))


def _is_followed(worker: LastBeat, starts: Mapping[str, Sequence[float]]) -> bool:
    """Return whether another one of this name began after it. `starts` has the last one first."""
    last = list(starts[worker.name][:2])
    if last[0] == worker.started_seconds:
        del last[0]
    return bool(last) and last[0] <= worker.seen_seconds


def _inherits(heirs: list[LastBeat], dead: LastBeat) -> bool:
    """Take out of the heirs the first that takes this worker's place; False if there is none."""
    for place, heir in enumerate(heirs):
        if heir.queues == dead.queues and heir.started_seconds <= dead.seen_seconds:
            del heirs[place]
            return True
    return False


def slots(living: int, most: int | None) -> int:
    """Return how many batches may be in flight for the `living` workers' slots; 0: none lives.

    `most` is `OUTBOX_SLOTS`.
    """
    if not living:
        return most or DEFAULT_SLOTS
    return living if most is None else min(living, most)
