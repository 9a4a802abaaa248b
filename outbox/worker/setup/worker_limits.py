"""What our tasks need from the worker that runs them: database connections, and time."""

from __future__ import annotations

import logging
import os
from math import ceil, inf
from typing import Any

from celery import Celery
from celery.concurrency import ALIASES

from ...domain.config.settings import Settings
from ...domain.counted import counted
from ..broker.own_task import annotated
from ..process.runtime import Runtime
from .full_worker import runs_in_one_process

_log = logging.getLogger("outbox")

SHARE = 4
"""How many tasks of one process share a database connection. A window's statement takes a few
milliseconds, and to send the window takes at least ten times as long."""

_FEWEST = 4
"""Connections that few tasks have, too: a sweep may need one for longer."""

_OURS = ("outbox.send", "outbox.sweep")
"""Both tasks send: a sweep itself sends what fits in one window."""

_TO_CLEAR_UP = 60.0
"""Seconds from a task's soft limit to its hard one."""


def configured(runtime: Runtime, app: Celery) -> list[str]:
    """Return a line for each limit in Celery's settings that is too low."""
    pool, concurrency = str(app.conf.worker_pool), str(app.conf.worker_concurrency)
    tasks = int(concurrency) if concurrency.isdecimal() else 0  # not set, or "auto": one per core
    few = too_few_connections(runtime, ALIASES.get(pool) or pool, tasks or os.cpu_count() or 1)
    return [*few, *too_short(app, runtime.settings)]


def share_connections(runtime: Runtime, pool: str, concurrency: int) -> None:
    """Have the tasks that run in one process share few connections, and never time out for one.

    `pool` is Celery's, as "module:class". With prefork each process has an engine of its own.
    """
    if runs_in_one_process(pool):
        runtime.database.share(max(_FEWEST, _needed(concurrency)))


def too_few_connections(runtime: Runtime, pool: str, concurrency: int) -> list[str]:
    """Return a line if tasks that run in one process would wait long for each other's connections.

    `pool` is Celery's, as "module:class".
    """
    kept, needed = runtime.database.kept, _needed(concurrency)
    if not runs_in_one_process(pool) or kept >= needed:
        return []
    return [
        f"the engine's pool keeps {counted(int(kept), 'connection')} open, and a worker runs"
        f" {counted(concurrency, 'task')} at once: set pool_size to {needed} or more"
    ]


def _needed(concurrency: int) -> int:
    return ceil(concurrency / SHARE)


def too_short(app: Celery, settings: Settings) -> list[str]:
    """Return a line for each time limit of our tasks that a slow SMTP server may exceed.

    Only `task_annotations` can set such a limit for our tasks, by name. See `give_time`.
    """
    needed = needed_seconds(settings)
    said = [annotated(app, app.tasks[name]) for name in _OURS]
    limits = {
        option: limits[option]
        for limits in said
        for option in ("soft_time_limit", "time_limit")
        if limits.get(option) and limits[option] < needed
    }
    return [
        f"task_annotations give a task of ours a {option} of {limit:g} s, and it may wait"
        f" {needed:g} s for its SMTP server: raise it, because a killed task leaves the emails in"
        " its open window in doubt"
        for option, limit in limits.items()
    ]


def give_time(app: Celery, settings: Settings, *, soft: float | None, hard: float | None) -> bool:
    """Give our tasks time limits of their own where the worker's are too short for them.

    `soft` and `hard` are the worker's in seconds, from its settings or its command line. They go on
    to hold for your own tasks.

    Where a hard limit holds, a soft one comes before it. A batch waits for a database that is away
    for as long as that takes, and a process that is killed takes its known results with it.

    Returns whether a hard limit holds for one of our tasks.
    """
    needed, is_hard = needed_seconds(settings), False
    for name in _OURS:
        task: Any = app.tasks[name]
        said = annotated(app, task)
        if hard and hard < needed + _TO_CLEAR_UP and "time_limit" not in said:
            task.time_limit = needed + _TO_CLEAR_UP
        latest = task.time_limit or hard or inf
        is_hard = is_hard or latest < inf
        is_late = needed < latest < inf and latest <= (soft or inf)
        if "soft_time_limit" not in said and (is_late or (soft and soft < needed)):
            task.soft_time_limit = needed
    if min(soft or needed, hard or needed) < needed:
        _log.info("outbox: the worker's time limit does not hold for the outbox: %g s do", needed)
    return is_hard


def needed_seconds(settings: Settings) -> float:
    """Return the most seconds that a task takes: its last window, with one slow email in it.

    Behind a batch that took longer than `batch_seconds` it sends no other one: see
    `tasks.sweep_and_send`.
    """
    slow = settings.connect_timeout + settings.transaction_timeout + settings.dot_timeout
    return settings.batch_seconds + settings.window_seconds + slow
