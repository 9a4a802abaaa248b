"""What keeps a worker from fetching tasks that a free one could run: by its broker and its Celery.

`worker_disable_prefetch` is for Redis, and came with Celery 5.6. An older Celery ignores it.
"""

from __future__ import annotations

from celery import Celery
from celery.app.defaults import DEFAULTS

from ..broker.own_task import uses_amqp

DISABLE = "worker_disable_prefetch"
MULTIPLIER = "worker_prefetch_multiplier"


def can_be_disabled(app: Celery) -> bool:
    """Return whether a worker of this app can fetch nothing ahead. Otherwise it can fetch less."""
    return DISABLE in DEFAULTS and not uses_amqp(app)


def option(app: Celery) -> str:
    """Return the option of `celery worker` that does it."""
    return "--disable-prefetch" if can_be_disabled(app) else "--prefetch-multiplier 1"


def unset(app: Celery) -> str:
    """Return what the settings lack, such as `worker_disable_prefetch is off`, or ""."""
    if can_be_disabled(app):
        return "" if app.conf[DISABLE] else f"{DISABLE} is off"
    return "" if app.conf[MULTIPLIER] == 1 else f"{MULTIPLIER} is not 1"
