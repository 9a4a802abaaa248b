"""Has only the worker's main thread talk over its connection to the broker, also after a loss.

A worker that has lost its broker takes fewer messages at first, and one more for each task that
ends. Celery tells the broker so where the task ended: with `threads` in that thread, which then
waits for the broker's reply while the main thread reads from the same socket. Each gets parts of
the other's answer. The worker stands still for minutes, or loses its connection once more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from celery.bootsteps import StartStopStep

from .worker_steps import add_to_each_worker

_RESTORE = "_restore_prefetch_count_after_connection_restart"


class RestoreInLoop(StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """A step of the worker's start that leaves to its loop what Celery does in each task's thread.

    It holds for the app's own tasks, too: the connection is the same.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        restore = getattr(consumer, _RESTORE, None)
        if restore is not None:  # Celery before 5.4 takes no fewer messages
            setattr(consumer, _RESTORE, partial(consumer.call_soon, restore))


add_to_each_worker(RestoreInLoop)
