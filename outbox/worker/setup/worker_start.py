"""What each worker, and each beat, does for the outbox at its start.

Only the worker knows its command line.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from celery.signals import beat_init, celeryd_after_setup
from sqlalchemy.exc import SQLAlchemyError

from ...domain.errors import ConfigurationError
from ...store.control.circuit_breaker import hurry
from ...store.queries.inspect_schema import lacking_privileges
from ..broker.queues import own_queues
from ..fleet.joining import join_as_beat, join_as_worker
from ..process.runtime import Runtime
from .green_pools import NO_EVENTLET, blocked, is_eventlet
from .idle_sweeps import lower_idle_sweeps
from .late_settings import late_settings
from .pairing import NO_FLASK_APP, is_anyones, is_paired, runtime_of
from .worker_limits import give_time, share_connections, too_few_connections, too_short

_log = logging.getLogger("outbox")

_CANNOT_GROW = "celery.concurrency.thread"

SPAWNED = (
    "worker_pool_start_method is not fork: the pool's processes have a copy of the Celery app,"
    " which no Flask app knows, so every task of ours fails; use fork, or the pool threads"
)

_COLD = (
    "REMAP_SIGTERM is SIGQUIT: with it Celery makes of SIGTERM a cold shutdown, which ends tasks in"
    " their windows, and these emails come into doubt; unset it for the workers of the outbox"
)


def _start(instance: Any, **_: Any) -> None:
    """Give our tasks the time that they need, and log what is wrong."""
    app = instance.app
    lower_idle_sweeps()
    try:
        runtime = runtime_of(app)
    except ConfigurationError as error:
        if _listened(app):
            _log.error("outbox: %s", error)
        elif not is_paired(app) and not is_anyones():  # else it is a worker of another Celery app
            _log.warning("outbox: this worker gets no task of the outbox: %s", NO_FLASK_APP)
        return
    if is_eventlet(instance.pool_cls.__module__):
        if listened := _listened(app):
            _log.error("outbox: %s", NO_EVENTLET)
            app.amqp.queues.deselect(listened)
        return
    soft, hard = instance.soft_time_limit, instance.time_limit
    runtime.has_hard_limit = give_time(app, runtime.settings, soft=soft, hard=hard)
    share_connections(runtime, *_size(instance))
    for text in _warnings(runtime, instance):
        _log.warning("outbox: %s", text)
    join_as_worker(runtime, instance)
    _look_at_database(runtime)
    runtime.before_forks()


def _listened(app: Any) -> list[str]:
    """Return the queues of ours to which this worker listens."""
    listened = app.amqp.queues.consume_from
    return [queue.name for queue in own_queues() if queue.name in listened]


def _look_at_database(runtime: Runtime) -> None:
    """Log the privileges that are lacking: without them its emails wait.

    Then have servers that wait for a person tried again: this worker may have the new password.
    """
    try:
        for text in lacking_privileges(runtime.database):
            _log.error("outbox: %s", text)
        hurry(runtime.database, [server.name for server in runtime.servers])
    except (ConfigurationError, SQLAlchemyError):  # no tables yet, or an outage
        return  # the probe comes when it is due


def _start_beat(sender: Any, **_: Any) -> None:
    """Have beat keep a row; a beat that serves no outbox, or several, has none."""
    try:
        runtime = runtime_of(sender.app)
    except ConfigurationError:
        return
    join_as_beat(runtime, sender)


def _size(worker: Any) -> tuple[str, int]:
    """Return the worker's pool, as "module:class", and how many tasks it runs at most."""
    pool = f"{worker.pool_cls.__module__}:{worker.pool_cls.__qualname__}"
    return pool, max(worker.concurrency, getattr(worker, "max_concurrency", None) or 0)


def _warnings(runtime: Runtime, worker: Any) -> list[str]:
    pool, most = _size(worker)
    return [
        *_unfit(worker, getattr(worker, "max_concurrency", None)),
        *too_few_connections(runtime, pool, most),
        *blocked(pool, runtime.database.engine),
        *too_short(worker.app, runtime.settings),
        *late_settings(runtime),
    ]


def _unfit(worker: Any, autoscale: int | None) -> list[str]:
    """Return a line for each option with which the pool cannot run our tasks, or not end well."""
    lines = []
    if autoscale and worker.pool_cls.__module__ == _CANNOT_GROW:
        lines.append(
            "this pool cannot grow, and --autoscale will end the worker: use --concurrency"
        )
    if getattr(worker, "pool_start_method", "fork") != "fork":
        lines.append(SPAWNED)
    if os.environ.get("REMAP_SIGTERM") == "SIGQUIT":
        lines.append(_COLD)
    return lines


celeryd_after_setup.connect(_start)
beat_init.connect(_start_beat)
