"""The verb `workers`: reads the fleet's table, and judges what stands there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from ...domain.config.agreement import differing, setting_digests
from ...domain.fleet import BEAT, STILL, LastBeat, WorkerState, missed, slots, state_of
from ...store.control import beat
from ...store.control import fleet as table
from ...store.control.fleet import WorkerRow
from ...worker.fleet.inquiry import OURS
from ...worker.process.own_process import has_ended
from ...worker.setup.additions import tasks_of
from .checks.fleet_table import judged
from .results import Fleet, WorkerDetails

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


def workers(runtime: Runtime) -> Fleet:
    """Return the fleet by its table; no worker and no broker is asked."""
    database = runtime.database

    def look(connection: Connection) -> tuple[tuple[WorkerRow, ...], beat.Ages]:
        return table.workers(connection, database), beat.ages(connection, database)

    return fleet_of(runtime, *database.read(look))


def fleet_of(runtime: Runtime, rows: tuple[WorkerRow, ...], ages: beat.Ages) -> Fleet:
    """Return the fleet of these rows, with the ages of the marks of beat and of the last task."""
    beat_seconds, task_seconds = ages
    living = sum(row.slots for row in rows if row.is_living)
    agreed = setting_digests(runtime.settings, runtime.servers, suppressed=runtime.sending_is_off())
    known = details(rows, agreed)
    fleet = Fleet(
        slots=slots(living, runtime.settings.slots),
        workers=tuple(one for one in known if one.pool != BEAT),
        beats=tuple(one for one in known if one.pool == BEAT),
        beat_seconds=beat_seconds,
        task_seconds=task_seconds,
        is_still=_is_still(runtime, task_seconds),
        unheard=_unheard([one for one in known if one.pool != BEAT]),
        problems=(),
    )
    return replace(fleet, problems=tuple(finding.text for finding in judged(fleet)))


def _is_still(runtime: Runtime, task_seconds: float | None) -> bool:
    """Return whether the last task is longer ago than beat's sweeps let it be.

    Where beat's schedule has no sweep, as with one by cron, or has a crontab, nobody can say.
    """
    app = runtime.find_celery()
    found = tasks_of(app.conf.beat_schedule or {}).get("outbox.sweep") if app is not None else None
    every = getattr(found, "run_every", found)  # Celery's own class of intervals has it
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    if task_seconds is None or not isinstance(seconds, int | float):
        return False
    return task_seconds > STILL + 2 * seconds


def details(rows: Iterable[WorkerRow], agreed: Mapping[str, str]) -> list[WorkerDetails]:
    """Return what the rows mean, in their order. `agreed` has the digests of our settings."""
    known = list(rows)
    facts = ("name", "host", "pid", "pool", "concurrency", "queues", "tasks", "version")
    times = ("started_at", "seen_at", "seen_seconds", "stopped_at")
    judged = states([row.last_beat for row in known])
    return [
        WorkerDetails(
            **{name: getattr(row, name) for name in (*facts, *times)},
            state=state,
            differing=differing(agreed, row.settings),
            is_missed=is_missed,
        )
        for row, (state, is_missed) in zip(known, judged, strict=True)
    ]


def states(workers: Sequence[LastBeat]) -> list[tuple[WorkerState, bool]]:
    """Return the state of each worker, and whether it is dead and nobody took its place."""
    found = [state_of(one, is_gone=has_ended(one.process)) for one in workers]
    gone = set(missed(workers, found))
    return [(state, place in gone) for place, state in enumerate(found)]


def _unheard(known: list[WorkerDetails]) -> dict[str, float | None]:
    """Return our queues to which none of these listens, with the seconds since one did."""
    heard = {name for one in known if one.state.is_living for name in one.queues}
    return {
        name: min((one.seen_seconds for one in known if name in one.queues), default=None)
        for name in OURS
        if known and name not in heard
    }
