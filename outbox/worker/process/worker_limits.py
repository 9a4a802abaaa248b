"""What our tasks need of the worker that runs them: a database connection each, and time.

Told by `flask outbox check` from Celery's settings, and by each worker at its start, when the
options of its command line count too.
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
"""Both send: what fits in one window the sweep sends itself."""


def configured(runtime: Runtime, app: Celery) -> list[str]:
    """Return what is too little in Celery's settings."""
    pool, concurrency = str(app.conf.worker_pool), str(app.conf.worker_concurrency)
    tasks = int(concurrency) if concurrency.isdecimal() else 0  # none, or "auto": one a core
    few = too_few_connections(runtime, ALIASES.get(pool) or pool, tasks or os.cpu_count() or 1)
    return [*few, *too_short(app, runtime.settings)]


def too_few_connections(runtime: Runtime, pool: str, concurrency: int) -> list[str]:
    """Tell where tasks that run in one process would wait for each other's connections.

    `pool` is Celery's, as "module:class". The processes of prefork have an engine each.
    """
    most = runtime.database.connections
    if not pool.startswith(_IN_ONE_PROCESS) or most >= concurrency:
        return []
    return [
        f"the engine's pool gives out {most:.0f} connections, and a worker runs {concurrency} tasks"
        f" at once: let pool_size + max_overflow be {concurrency} or more"
    ]


def too_short(
    app: Celery, settings: Settings, *, soft: float | None = None, hard: float | None = None
) -> list[str]:
    """Tell which time limits are below what one slow SMTP server may take of a task.

    `soft` and `hard` are the worker's own, which count for a task that has none.
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
        " what it kills in an open window is in doubt"
        for name, limit in limits.items()
    ]


def needed_seconds(settings: Settings) -> float:
    """Return how long a task may take: the last window of its time, and in it one slow message."""
    slow = settings.connect_timeout + settings.command_timeout + settings.dot_timeout
    return settings.batch_seconds + settings.window_seconds + slow


def _tell(instance: Any, **_: Any) -> None:
    """Warn at a worker's start."""
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
