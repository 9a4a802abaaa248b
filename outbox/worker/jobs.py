"""Does jobs a little at a time, after a sweep's claims: no email waits for them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial

from ..domain.counted import counted
from ..domain.errors import OutboxError, RowsLocked
from ..domain.jobs.pace import LEAST, next_size
from ..store.bounded_waits import run_bounded
from ..store.connection.error_codes import describe, is_missing_table, is_outage, is_too_long
from ..store.control import lease
from ..store.jobs import row
from ..store.jobs.step import step
from .process import shutdown
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

TURN = 0.3
"""Seconds that a sweep gives to jobs. Then the next sweep claims what is due, and goes on."""
IDLE_WAIT = 1.0
"""Seconds until a process looks for jobs again, after it has found none."""
RETRY_AFTER = 10.0
"""Seconds until it looks again after an error."""


def take_turn(runtime: Runtime) -> bool:
    """Do jobs for a turn, unless this process has just seen that there are none.

    Returns whether more is to be done. An error keeps no email back: it is logged.
    """
    if runtime.clock() < runtime.job_pace.looks_again_at:
        return False
    more, wait = False, IDLE_WAIT
    try:
        more = run_jobs(runtime)
    except Exception as error:  # noqa: BLE001  (the jobs stand as they were before the step)
        _log.warning("outbox: the jobs wait (%s)", describe(error))
        wait = RETRY_AFTER
    if not more:
        runtime.job_pace.looks_again_at = runtime.clock() + wait
    return more


def run_jobs(runtime: Runtime) -> bool:
    """Do jobs for TURN seconds, each in its turn; return whether more may be to be done now.

    In a copy of the outbox nothing is done. Jobs that other processes have are left to them.
    """
    database, end = runtime.database, runtime.clock() + TURN
    while ids := _waiting(runtime, database.read(partial(row.running, database=database))):
        if shutdown.requested() or runtime.instance.refusal():
            return False
        if not any(_step(runtime, job_id) for job_id in ids):
            return False
        if runtime.clock() >= end:
            return True
    return False


def _waiting(runtime: Runtime, running: Sequence[int]) -> list[int]:
    """Return the jobs to do now. Those whose last step failed are left for a while, and come last.

    So a step that always fails keeps no other job waiting, even if only outages fail so.
    """
    left, now = runtime.job_pace.left_until, runtime.clock()
    for job_id in set(left.copy()).difference(running):  # another sweep's thread may do the same
        left.pop(job_id, None)
    return sorted((one for one in running if left.get(one, now) <= now), key=left.__contains__)


def _step(runtime: Runtime, job_id: int) -> bool:
    """Do one step of a job; return False if another process has it."""
    database, pace, began = runtime.database, runtime.job_pace, runtime.clock()
    indexed = runtime.settings.indexed
    work = partial(step, database=database, job_id=job_id, indexed=indexed, most=pace.size)
    try:
        done = run_bounded(database, work)
    except Exception as error:  # noqa: BLE001  (the job stands as it was before the step)
        _note_error(runtime, job_id, error)
        return True
    pace.left_until.pop(job_id, None)
    took = runtime.clock() - began
    if done:
        pace.size = next_size(pace.size, took)
        _rest(runtime, took)
    return done


def _note_error(runtime: Runtime, job_id: int, error: Exception) -> None:
    """Go on in smaller steps after one that took longer than the database allows; or leave the job.

    It is stopped if its next step would fail again. Where even that fails, it is tried again later.
    What ends this task is raised.
    """
    pace = runtime.job_pace
    if is_too_long(error) and pace.size > LEAST:
        pace.size = max(LEAST, pace.size // 2)
        return
    pace.left_until[job_id] = runtime.clock() + RETRY_AFTER
    try:
        if is_too_long(error):
            emails = counted(pace.size, "email")
            _stop(runtime, job_id, f"a step of {emails} takes longer than the database allows")
        elif shutdown.is_nobodys_fault(error) or not _is_the_jobs(error):
            raise error
        else:
            text = str(error) if isinstance(error, OutboxError) else describe(error)
            _stop(runtime, job_id, text)
    except Exception as failed:
        if shutdown.is_nobodys_fault(failed):
            raise
        _log.warning("outbox: job %d waits (%s)", job_id, describe(failed))


def _is_the_jobs(error: Exception) -> bool:
    """Return whether a job's next step would fail again. Only what is known to pass lets it run."""
    away = isinstance(error, OSError) or is_outage(error) or is_missing_table(error)
    return not (away or isinstance(error, RowsLocked))


def _stop(runtime: Runtime, job_id: int, text: str) -> None:
    """Stop a job whose next step would fail again, until a person has looked at it."""
    database = runtime.database
    run_bounded(database, lambda connection: row.stop(connection, database, job_id, text))
    _log.error("outbox: job %d is stopped (%s)", job_id, text)


def _rest(runtime: Runtime, took: float) -> None:
    """Leave a database of one writer to the batches in flight for as long as the step took."""
    database = runtime.database
    if database.facts.one_writer and database.read(partial(lease.is_any, database=database)):
        time.sleep(took)
