"""Checks what our tasks need from the worker that runs them: a database connection each, and time.

`flask outbox check` checks Celery's settings. Each worker at its start checks its command line's
options, too.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from celery.concurrency import ALIASES
from celery.signals import celeryd_after_setup

from ...domain.config.settings import Settings
from ...domain.errors import ConfigurationError
from .runtime import Runtime, runtime_of

if TYPE_CHECKING:
    from celery import Celery

_log = logging.getLogger("outbox")

_IN_ONE_PROCESS = tuple(f"celery.concurrency.{name}" for name in ("thread", "gevent", "eventlet"))
_OURS = ("outbox.send", "outbox.sweep")
"""Both tasks send: a sweep itself sends what fits in one window."""


def configured(runtime: Runtime, app: Celery) -> list[str]:
    """Return a line for each limit in Celery's settings that is too low."""
    pool, concurrency = str(app.conf.worker_pool), str(app.conf.worker_concurrency)
    tasks = int(concurrency) if concurrency.isdecimal() else 0  # not set, or "auto": one per core
    few = too_few_connections(runtime, ALIASES.get(pool) or pool, tasks or os.cpu_count() or 1)
    return [*few, *too_short(app, runtime.settings)]


def too_few_connections(runtime: Runtime, pool: str, concurrency: int) -> list[str]:
    """Return a line if tasks that run in one process would wait for each other's connections.

    `pool` is Celery's, as "module:class". With prefork each process has an engine of its own.
    """
    most = runtime.database.connections
    if not pool.startswith(_IN_ONE_PROCESS) or most >= concurrency:
        return []
    return [
        f"the engine's pool gives out {most:.0f} connections, and a worker runs {concurrency} tasks"
        f" at once: set pool_size + max_overflow to {concurrency} or more"
    ]


def too_short(
    app: Celery, settings: Settings, *, soft: float | None = None, hard: float | None = None
) -> list[str]:
    """Return a line for each time limit that is below what a slow SMTP server may take.

    `soft` and `hard` are the worker's own limits in seconds. They count for a task without its own.
    """
    needed = needed_seconds(settings)
    limits = {
        name: limit
        for task in map(app.tasks.get, _OURS)
        for name, limit in (
            ("task_soft_time_limit", getattr(task, "soft_time_limit", None) or soft),
            ("task_time_limit", getattr(task, "time_limit", None) or hard),
        )
        if limit and limit < needed
    }
    return [
        f"{name} is {limit:g} s, and a task of ours may wait {needed:g} s for its SMTP server:"
        " raise it, because a killed task leaves the emails in its open window in doubt"
        for name, limit in limits.items()
    ]


def needed_seconds(settings: Settings) -> float:
    """Return the most seconds that a task takes: its last window, with one slow email in it."""
    slow = settings.connect_timeout + settings.transaction_timeout + settings.dot_timeout
    return settings.batch_seconds + settings.window_seconds + slow


def _tell(instance: Any, **_: Any) -> None:
    """Log the warnings at a worker's start."""
    try:
        runtime = runtime_of(instance.app)
    except ConfigurationError:  # another app's worker
        return
    pool = f"{instance.pool_cls.__module__}:{instance.pool_cls.__qualname__}"
    few = too_few_connections(runtime, pool, instance.concurrency)
    limits = {"soft": instance.soft_time_limit, "hard": instance.time_limit}
    for text in few + too_short(instance.app, runtime.settings, **limits):
        _log.warning("outbox: %s", text)


celeryd_after_setup.connect(_tell)
