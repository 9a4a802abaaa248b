"""How many messages wait in a queue: one sweep is enough, and a weekend makes no pile of them."""

from __future__ import annotations

from typing import Any

from celery import Celery, Task
from celery.result import AsyncResult
from celery.utils import uuid
from kombu.messaging import Producer

from .queues import LOW_QUEUE, SWEEP_QUEUE

_OWN = (SWEEP_QUEUE, LOW_QUEUE)
"""Queues that hold nothing else: in another one, what waits may be anybody's."""


def waiting(app: Celery, producer: Producer, queue: str) -> int:
    """Ask the broker how many messages wait in a queue that no worker has taken yet.

    The queue is declared as a publish would declare it: that is one trip, it tells the number, and
    one that somebody has deleted exists again.
    """
    entity = app.amqp.queues[queue](producer.channel)
    return int(entity.queue_declare().message_count)


class Periodic(Task):  # type: ignore[misc]  # Celery is untyped
    """A task whose next run does the work of all that wait: where one waits, no other is published.

    So it is with whatever publishes it by its name: beat with any scheduler, a script, Flower.
    """

    abstract = True

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Publish it, unless it waits already; the result is of a task that is never run then."""
        if self._waits(options.get("queue"), options.get("producer")):
            return AsyncResult(uuid(), app=self.app)
        return super().apply_async(*args, **options)

    def _waits(self, queue: Any, producer: Producer | None) -> bool:
        if queue not in _OWN or self.app.conf.task_always_eager:
            return False
        try:
            with self.app.producer_or_acquire(producer) as chosen:
                return waiting(self.app, chosen, queue) > 0
        except Exception:  # noqa: BLE001  (no count stops a sweep: publishing tells what is wrong)
            return False
