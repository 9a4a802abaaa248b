"""What a worker's row in the table means: it is at work, silent, dead or stopped. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

EVERY = 10.0
"""Seconds from one beat of a worker to its next."""

SILENT = 25.0
"""Seconds after its last beat from which on a worker is silent: two beats are missing."""

LIVING = 45.0
"""Seconds after its last beat for which a worker counts as living, and its slots count."""

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

    BUSY = "busy"  # it ran a task at its last beat
    IDLE = "idle"  # it lives, and ran none
    SILENT = "silent"  # its beats are missing, and it still counts
    DEAD = "dead"  # it has been silent for too long, or its process is gone
    STOPPED = "stopped"  # it was asked to stop, and takes no more tasks

    @property
    def is_living(self) -> bool:
        """Whether the worker counts as one that takes tasks."""
        return self in (WorkerState.BUSY, WorkerState.IDLE, WorkerState.SILENT)


def state_of(*, seen: float, is_stopped: bool, is_gone: bool, tasks: int) -> WorkerState:
    """Return the state of a worker that was seen so many seconds ago, and then ran `tasks`.

    `is_gone`: its process is known to have ended.
    """
    if is_stopped:
        return WorkerState.STOPPED
    if is_gone or seen > LIVING:
        return WorkerState.DEAD
    if seen > SILENT:
        return WorkerState.SILENT
    return WorkerState.BUSY if tasks else WorkerState.IDLE


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """A worker's life, by how many seconds ago it started and was seen last."""

    started: float
    seen: float
    state: WorkerState
    name: str  # a later worker of this name takes its place, whatever became of that one since
    place: object  # what a worker of another name must have in common to take its place


def missed(lives: Iterable[Life]) -> list[int]:
    """Return the places, in `lives`, of dead workers whose work no later one has taken over.

    A later worker of the same name has taken it over, even if it is dead or stopped by now. A
    living worker of another name takes the place of one dead worker at most.
    """
    known, starts = list(lives), defaultdict[str, list[float]](list)
    for life in sorted(known, key=lambda one: one.started):
        starts[life.name].append(life.started)
    dead = [place for place, life in enumerate(known) if life.state is WorkerState.DEAD]
    dead.sort(key=lambda place: known[place].seen)
    first_seen = {known[place].name: known[place].seen for place in dead}  # who died first
    heirs = [
        one for one in known if one.state.is_living and one.started > first_seen.get(one.name, -1.0)
    ]
    orphans = [place for place in dead if not _is_followed(known[place], starts)]
    return sorted(place for place in orphans if not _inherits(heirs, known[place]))


def _is_followed(life: Life, starts: Mapping[str, Sequence[float]]) -> bool:
    """Return whether another life of this name began after it. `starts` has the last one first."""
    last = list(starts[life.name][:2])
    if last[0] == life.started:
        del last[0]
    return bool(last) and last[0] <= life.seen


def _inherits(heirs: list[Life], life: Life) -> bool:
    """Take out of the heirs the first that takes this worker's place; False if there is none."""
    heir = next((h for h in heirs if h.place == life.place and h.started <= life.seen), None)
    if heir is not None:
        heirs.remove(heir)
    return heir is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """The sign that a worker has given of its life, by how many seconds ago that was."""

    name: str
    pool: str
    queues: tuple[str, ...]
    tasks: int
    process: ProcessId
    started_seconds: float
    seen_seconds: float
    is_stopped: bool


def slots(living: int, most: int | None) -> int:
    """Return how many batches may be in flight for the `living` workers' slots; 0: none lives.

    `most` is `OUTBOX_SLOTS`.
    """
    if not living:
        return most or DEFAULT_SLOTS
    return living if most is None else min(living, most)
