"""Counts the messages that wait in a queue, so that beat's sweeps do not pile up there.

One waiting sweep is enough: without workers, a weekend of beat would leave thousands.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.result import AsyncResult
from celery.utils import uuid
from kombu.messaging import Producer

from .own_task import OwnTask
from .queues import LOW_QUEUE, SWEEP_QUEUE

_OWN = (SWEEP_QUEUE, LOW_QUEUE)
"""Queues that hold only periodic tasks of ours: in any other, other tasks may wait, too."""


def waiting(app: Celery, producer: Producer, queue: str) -> int:
    """Return how many messages wait in a queue that no worker has taken yet.

    It declares the queue as a publish would. That takes one trip, returns the number, and makes a
    queue anew that somebody has deleted.
    """
    entity = app.amqp.queues[queue](producer.channel)
    return int(entity.queue_declare().message_count)


class Periodic(OwnTask):
    """A task that is not published while one waits, because one run does the work of all.

    This holds for every publisher that uses the task: beat with any scheduler, a script, Flower.
    """

    abstract = True

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Publish the task, unless one waits: then the result is of a task that never runs."""
        if self._waits(options.get("queue") or self.home, options.get("producer")):
            return AsyncResult(uuid(), app=self.app)
        return super().apply_async(*args, **options)

    def _waits(self, queue: Any, producer: Producer | None) -> bool:
        if queue not in _OWN or self.app.conf.task_always_eager:
            return False
        try:
            with self.app.producer_or_acquire(producer) as chosen:
                return waiting(self.app, chosen, queue) > 0
        except Exception:  # noqa: BLE001  (publish anyway: that tells what is wrong)
            return False
