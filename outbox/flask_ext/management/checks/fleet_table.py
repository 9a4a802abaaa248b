"""What is wrong with the fleet, as far as its table tells, each with its remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ....domain.counted import counted
from ....domain.fleet import LIVING, STILL, WorkerState
from ....domain.version import __version__
from ....store.control import beat
from ....worker.broker.queues import SWEEP_QUEUE
from ....worker.fleet.inquiry import SENDING
from ..results import Fleet, WorkerDetails
from .codes import Code
from .finding import Finding, error, warn

RESTART = 20.0
"""Seconds for which a queue may lack a worker, or the outbox a beat, while one is restarted."""

OUTLIVED = 11.0
"""Seconds from the last task for which beat must have lived on, to show that it is not the cause:
it is seen every ten seconds, and a task's mark is up to ten seconds older than its last task."""

_LOST = (
    "was seen {seen:.0f} s ago and did not say that it stops: start it again, and look into its log"
    " and into the kernel's, which tells of a lack of memory. If it lives, it uses another"
    " database, such as an old primary that goes on after a failover"
)
_SILENT = (
    "was seen {seen:.0f} s ago, and writes every 10 s: start it again if it is gone, or see whether"
    " it reaches the database"
)
_STILL = (
    "no worker has got a task for {seconds:.0f} s, though beat and {workers} live: the broker is"
    " away, or they have different ones: start it, or mend broker_url (flask outbox check asks it);"
    " until then emails wait, and none is lost"
)


def judged(fleet: Fleet) -> list[Finding]:
    """Return what is wrong with the fleet."""
    return [
        *judged_but_for_queues(fleet),
        *unheard_findings(fleet),
    ]


def judged_but_for_queues(fleet: Fleet) -> list[Finding]:
    """Return what is wrong with the fleet where the workers were asked for their queues."""
    beats = still_findings(fleet) or _beats(fleet)
    return [*_lives(fleet), *beats, *_versions(fleet), *_settings(fleet)]


def still_findings(fleet: Fleet) -> list[Finding]:
    """Return the finding on a broker that hands out no task, though beat asks and workers wait.

    Workers that are all at work may take no sweep for minutes. So one must have been free for a
    while, and beat must have lived on after the last task.
    """
    last, free = fleet.task_seconds, [one for one in fleet.workers if _is_free(one)]
    if last is None or not fleet.is_still or not free:
        return []
    if not any(one.seen_seconds < last - OUTLIVED for one in fleet.beats):
        return []
    told = _STILL.format(seconds=last, workers=counted(len(fleet.living), "worker"))
    return [error(told, Code.NO_TASKS)]


def _is_free(one: WorkerDetails) -> bool:
    """Return whether a worker waits for sweeps, and has been there for long enough to get one.

    One of another version may leave no mark of its tasks.
    """
    life = (one.seen_at - one.started_at).total_seconds() + one.seen_seconds
    return (
        one.state in (WorkerState.IDLE, WorkerState.BUSY)
        and one.tasks < one.concurrency
        and SWEEP_QUEUE in one.queues
        and one.version == __version__
        and life > STILL
    )


def unheard_findings(fleet: Fleet) -> Iterator[Finding]:
    """Yield the finding on queues to which no living worker has listened for a while."""
    lacking = {
        name: seconds
        for name, seconds in fleet.unheard.items()
        if seconds is None or seconds > RESTART
    }
    if not lacking:
        return
    level = error if SENDING.intersection(lacking) else warn
    since = [seconds for seconds in lacking.values() if seconds is not None]
    last = f" (the last one was seen {min(since):.0f} s ago)" if since else ""
    queues = ",".join(lacking)
    remedy = f"start a worker (celery -A yourapp worker), or one with -Q {queues};"
    remedy += " -A must name the module that creates the Flask app"
    yield level(f"no living worker listens to {', '.join(lacking)}{last}: {remedy}", Code.UNHEARD)


def _lives(fleet: Fleet) -> Iterator[Finding]:
    for one in fleet.workers:
        if one.is_missed:
            told = _LOST.format(seen=one.seen_seconds)
            yield warn(f"the worker {one.name} is dead: it {told}", Code.WORKER_DEAD)
        elif one.state is WorkerState.SILENT:
            told = _SILENT.format(seen=one.seen_seconds)
            yield warn(f"the worker {one.name} is silent: it {told}", Code.WORKER_SILENT)


def _beats(fleet: Fleet) -> Iterator[Finding]:
    """Yield the finding on beat if none lives, and nobody has swept in its place since."""
    at_work = (WorkerState.BUSY, WorkerState.IDLE)
    if not fleet.beats or any(one.state in at_work for one in fleet.beats):
        return
    last = _last(fleet.beats)
    if last.state is WorkerState.STOPPED and last.seen_seconds < RESTART:
        return
    if fleet.beat_seconds is not None and fleet.beat_seconds < last.seen_seconds - beat.EVERY:
        return
    told = f"{last.name} is {last.state}: it was seen {last.seen_seconds:.0f} s ago"
    level = warn if last.state is WorkerState.SILENT else error
    text = f"{told}, and no other beat runs: start one (celery -A yourapp beat)"
    yield level(text, Code.BEAT_DEAD)


def _last(beats: Sequence[WorkerDetails]) -> WorkerDetails:
    """Return the beat that is missed: the last one, or one that died where the last one stopped."""
    newest = min(one.seen_seconds for one in beats)
    beside = [one for one in beats if one.seen_seconds < newest + LIVING]
    return min(beside, key=lambda one: (one.state is WorkerState.STOPPED, one.seen_seconds))


def _versions(fleet: Fleet) -> Iterator[Finding]:
    found = defaultdict[str, list[str]](list)
    for one in _living(fleet):
        found[one.version].append(one.name)
    if set(found) <= {__version__}:
        return
    told = "; ".join(f"{version}: {', '.join(sorted(names))}" for version, names in found.items())
    text = f"this process has version {__version__}, and there run {told}: restart the older"
    yield warn(text, Code.VERSIONS)


def _settings(fleet: Fleet) -> Iterator[Finding]:
    for one in _living(fleet):
        if one.differing:
            told = f"{one.name} has other settings than this process: {', '.join(one.differing)}"
            yield warn(f"{told}; give each process the same ones, and restart it", Code.DIFFERING)


def _living(fleet: Fleet) -> list[WorkerDetails]:
    return [one for one in (*fleet.workers, *fleet.beats) if one.state.is_living]
