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
"""One queue a priority, so that an urgent batch waits behind no bulk batch in the broker."""

MOST_SENDS = 100
"""Batches that wait in one queue, beside those in flight. More than that are of leases that ran out
long ago, and nobody takes them: another one would only be lost among them."""

LOW_QUEUE = "outbox.low"
"""What may wait: a purge in the queue of sweeps would hold them up."""

DEFAULT_QUEUE = "celery"

QUEUES: tuple[Queue, ...] = tuple(
    Queue(name, routing_key=name)  # type: ignore[no-untyped-call]
    for name in (SWEEP_QUEUE, *SEND_QUEUES.values(), DEFAULT_QUEUE, LOW_QUEUE)
)
"""What a worker listens to: sweeps apart from sends, and Celery's own queue for the app's tasks."""

PURGE_INTERVAL = 300.0
"""Seconds between purges. Each ends after a few seconds and does not publish the next one; one that
finds nothing to remove reads a few rows."""


def beat_schedule(config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return beat's entries for the `OUTBOX_…` settings in `config`, or for their defaults.

    No `expires`: Celery compares it with the worker's clock, so a beat whose clock is slow would
    have every sweep revoked. A sweep too many costs one statement.
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
