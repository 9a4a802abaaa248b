"""Checks the messages that a worker takes: garbled ones are dropped, and the worker lives on.

A Celery strategy makes, for each task, the function that turns a message into a request. Messages
for our tasks are checked there. A message whose task Celery could not look up is dropped before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Task
from celery.bootsteps import StartStopStep
from celery.worker.strategy import default

from .task_message import address_fault, fault
from .worker_steps import add_to_each_worker

_log = logging.getLogger("outbox")

CHECKED = f"{__name__}:checked"
"""The strategy of our tasks; Celery wants its name."""

Handler = Callable[[Any, Any, Any, Any, Any], Any]


def checked(task: Task[Any, Any], app: Any, consumer: Any, **options: Any) -> Handler:
    """Return Celery's own message handler, with a check of each message before it."""
    handle: Handler = default(task, app, consumer, **options)

    def take(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        if (part := fault(message, body)) is None:
            return handle(message, body, ack, reject, callbacks)
        return drop(message, consumer, task.name, part)

    return take


def drop(message: Any, consumer: Any, name: str, part: str) -> None:
    """Reject a message; log which part is garbled, and none of its content."""
    _log.warning("outbox: a garbled message for %s was dropped (%s)", name, part)
    message.reject_log_error(_log, consumer.connection_errors)


class Door(StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """A step of the worker's start that has each message checked before its task is looked up."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        make = consumer.create_task_handler

        def make_behind_the_door() -> Callable[[Any], Any]:
            handle = make()

            def take(message: Any) -> Any:
                if (part := address_fault(message, consumer.strategies)) is None:
                    return handle(message)
                return drop(message, consumer, "no task", part)

            return take

        consumer.create_task_handler = make_behind_the_door


add_to_each_worker(Door)
