"""Leaves marks in the table while beat's tasks run, and while any task does: `check` reads them."""

from __future__ import annotations

import logging

from sqlalchemy.exc import SQLAlchemyError

from ..store.connection.error_codes import describe, is_outage
from ..store.control import beat
from ..store.control.counter import BEAT, TASK
from ..store.queries.clock_skew import seconds_ahead, skew_warnings
from .process.runtime import Runtime

_log = logging.getLogger("outbox")


def note_beat(runtime: Runtime) -> None:
    """Note that a task runs that beat asked for: the worker's parent process writes the mark.

    Without one each process does so, once in `beat.EVERY` seconds. The first time, a clock that
    differs from the database's is logged. An error of the database keeps no email back. It is
    logged, but for an outage, of which the task itself tells.
    """
    now, is_told = runtime.clock(), runtime.last_tasks.tell(BEAT)
    if now < runtime.beat_noted_until:
        return
    is_first, runtime.beat_noted_until = not runtime.beat_noted_until, now + beat.EVERY
    try:
        if not is_told:
            beat.note(runtime.database)
        told = skew_warnings(seconds_ahead(runtime.database)) if is_first else []
    except SQLAlchemyError as error:
        told = [] if is_outage(error) else [f"beat's mark was not left ({describe(error)})"]
    for text in told:
        _log.warning("outbox: %s", text)


def note_task(runtime: Runtime) -> None:
    """Note that a task of ours has come: the worker's parent process writes the mark.

    Without one each process looks once in `beat.TASK_EVERY` seconds. A mark that another process
    left just now is only read. An outage keeps no email back, and the next task tries again.
    """
    if runtime.last_tasks.tell(TASK):
        return
    now = runtime.clock()
    if now < runtime.task_noted_until:
        return
    try:
        beat.note_task(runtime.database)
    except SQLAlchemyError as error:
        if not is_outage(error):
            _log.warning("outbox: a task's mark was not left (%s)", describe(error))
        return
    runtime.task_noted_until = now + beat.TASK_EVERY
