"""Leaves marks in the table while beat's tasks run, and while any task does: `check` reads them."""

from __future__ import annotations

import logging
from math import inf

from sqlalchemy.exc import SQLAlchemyError

from ..store.connection.error_codes import describe, is_outage
from ..store.control import beat
from ..store.control.counter import BEAT, TASK
from ..store.queries.clock_skew import seconds_ahead, skew_warnings
from .process.retry_writes import TOLD_EVERY
from .process.runtime import Runtime

_log = logging.getLogger("outbox")

_CLOCKS = "compare the clocks"
_NO_MARK = "outbox: a task's mark was not left (%s)"


def note_beat(runtime: Runtime) -> None:
    """Note that a task runs that beat asked for: the worker's parent process writes the mark.

    Without one each process does so, once in `beat.EVERY` seconds. The first time, a clock that
    differs from the database's is logged. An error of the database keeps no email back. It is
    logged, but for an outage, of which the task itself tells.
    """
    is_noted = runtime.last_tasks.tell(BEAT)
    if not runtime.seldom.is_due(BEAT, beat.EVERY):
        return
    is_first = runtime.seldom.is_due(_CLOCKS, inf)
    try:
        if not is_noted:
            beat.note(runtime.database)
        warnings = skew_warnings(seconds_ahead(runtime.database)) if is_first else []
    except SQLAlchemyError as error:
        warnings = [] if is_outage(error) else [f"beat's mark was not left ({describe(error)})"]
    for text in warnings:
        _log.warning("outbox: %s", text)


def note_task(runtime: Runtime) -> None:
    """Note that a task of ours has come: the worker's parent process writes the mark.

    Without one each process looks once in `beat.TASK_EVERY` seconds. A mark that another process
    left just now is only read. An outage keeps no email back, and the next task tries again.
    """
    if runtime.last_tasks.tell(TASK) or not runtime.seldom.is_due(TASK, beat.TASK_EVERY):
        return
    try:
        beat.note_task(runtime.database)
    except BaseException as error:
        runtime.seldom.forget(TASK)
        if not isinstance(error, SQLAlchemyError):
            raise
        if not is_outage(error) and runtime.seldom.is_due(_NO_MARK, TOLD_EVERY):
            _log.warning(_NO_MARK, describe(error))
