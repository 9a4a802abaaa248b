"""The queues and beat's schedule, for `celeryconfig.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kombu.entity import Queue

from ...domain.config.settings import Settings
from ...domain.priority import Priority

SWEEP_QUEUE = "outbox.sweep"
SEND_QUEUES = {
    Priority.URGENT: "outbox.urgent",
    Priority.NORMAL: "outbox.normal",
    Priority.BULK: "outbox.bulk",
}
"""One queue for each priority, so that no urgent batch waits behind a bulk batch in the broker."""

MOST_SENDS = 100
"""The most send tasks that wait in one queue, beside those in flight. Where more wait, no worker
takes them and their leases ran out long ago: another task would only be lost among them."""

LOW_QUEUE = "outbox.low"
"""The queue of tasks that may wait: a purge in the sweeps' queue would hold the sweeps up."""

DEFAULT_QUEUE = "celery"


def own_queues() -> list[Queue]:
    """Return the outbox's queues, made anew: Celery writes into those that an app is given."""
    names = (SWEEP_QUEUE, *SEND_QUEUES.values(), LOW_QUEUE)
    return [Queue(name, routing_key=name) for name in names]  # type: ignore[no-untyped-call]


def queues(default: str | Queue = DEFAULT_QUEUE) -> tuple[Queue, ...]:
    """Return the queues for a worker: ours, and the `default` queue of the app's own tasks.

    `default` is what `task_default_queue` says. Give a `kombu.Queue` if that queue has options.
    """
    if isinstance(default, str):
        default = Queue(default, routing_key=default)  # type: ignore[no-untyped-call]
    return (*own_queues(), default)


QUEUES = queues()
"""The queues for a worker of an app that has no `task_default_queue`."""

PURGE_INTERVAL = 300.0
"""Seconds between purges. Each purge ends after a few seconds and does not publish the next one. A
purge that finds nothing to remove reads a few rows."""


def beat_schedule(config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return beat's entries for the `OUTBOX_…` settings in `config`, or for their defaults.

    The entries have no `expires`: Celery compares it with the worker's clock, so every sweep of a
    beat whose clock is slow would be revoked. A superfluous sweep costs one statement.
    """
    settings = Settings.from_config(config or {})
    return {
        "outbox.sweep": {
            "task": "outbox.sweep",
            "schedule": settings.sweep_interval,
            "options": {"queue": SWEEP_QUEUE},
        },
        "outbox.purge": {
            "task": "outbox.purge",
            "schedule": PURGE_INTERVAL,
            "options": {"queue": LOW_QUEUE},
        },
    }
