"""Has our tasks go on when their worker loses the broker, whatever the app has of its own tasks.

With `worker_cancel_long_running_tasks_on_connection_loss` Celery ends each task whose message is
not acknowledged, because the broker hands it out again. One of ours would be ended in its window,
and its emails would come into doubt. If its message comes again, it finds its lease taken, and does
nothing.
"""

from __future__ import annotations

from typing import Any

from celery.bootsteps import StartStopStep
from celery.worker import state

from .own_task import OwnTask
from .worker_steps import add_to_each_worker


class GoOn(StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """A step of the worker's start that hides our tasks from what ends those of the app."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        lose = consumer.on_connection_error_after_connected

        def lose_but_go_on(error: Any) -> Any:
            if consumer.app.conf.worker_cancel_long_running_tasks_on_connection_loss:
                _hide()
            return lose(error)

        consumer.on_connection_error_after_connected = lose_but_go_on


def _hide() -> None:
    """Note that no acknowledgement is due: there is no connection left on which to send one.

    This holds also for a task that another thread begins while the connection is given up.
    """
    for request in {*state.reserved_requests, *state.active_requests}:
        if isinstance(request.task, OwnTask):
            request.acknowledged = True


add_to_each_worker(GoOn)
