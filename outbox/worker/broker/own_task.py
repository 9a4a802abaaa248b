"""The base of our tasks: what your Celery settings say of your own tasks does not hold for them.

A late acknowledgement, a short time limit or a rate limit may be right for an app's tasks and wrong
for the outbox's. Celery takes such options from each task before it takes them from the settings.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, Task

_AMQP = ("amqp", "amqps", "pyamqp", "librabbitmq")

_PICKLES = ("pickle", "application/x-python-serialize")


class OwnTask(Task):  # type: ignore[misc]  # Celery is untyped
    """A task of the outbox, whatever `task_cls`, `task_…` settings and `task_routes` the app has.

    What `task_annotations` says of the task by its name holds, because it is said of this task.
    """

    abstract = True
    home: str
    """The queue of the task where its publisher names none."""

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Set the options that Celery has just taken from the app's settings."""
        said = annotated(app, cls)
        for name, value in _options(app).items():
            if name not in said:
                setattr(cls, name, value)

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Publish the task, to its own queue where no other is named."""
        queue = options.get("queue") or self.home
        way = direct(getattr(queue, "name", queue))  # it may be a kombu.Queue
        # Some schedulers hand over what they do not know as None.
        said = {name: one for name, one in options.items() if one is not None or name not in way}
        return super().apply_async(*args, **way | said)


def annotated(app: Celery, task: Any) -> dict[str, Any]:
    """Return what the app's `task_annotations` say of a task by its name."""
    for annotation in app.annotations:
        if found := annotation.annotate(task):
            return dict(found)
    return {}


def _options(app: Celery) -> dict[str, Any]:
    return {
        # Over AMQP a message that is not yet acknowledged counts as its process's one message. With
        # other brokers a late acknowledgement only makes tasks come twice: their lease brings back
        # what dies with a worker.
        "acks_late": uses_amqp(app),
        "reject_on_worker_lost": False,
        "retry_on_worker_lost": False,
        "serializer": serializer(app),
        "rate_limit": 0,  # none
        # A message with a time limit would overrule what the worker gives our tasks at its start.
        "time_limit": None,
        "soft_time_limit": None,
    }


def uses_amqp(app: Celery) -> bool:
    """Return whether the app's workers read from an AMQP broker."""
    return transport(app) in _AMQP


def transport(app: Celery) -> str:
    """Return the kind of broker, such as "redis": that of the first URL where there are several."""
    url = app.conf.broker_read_url
    first = url if isinstance(url, str) else next(iter(url or ()), "")
    scheme, divider, _ = first.partition("://")
    return str(app.conf.broker_transport or (scheme if divider else "amqp")).lower()


def serializer(app: Celery) -> str:
    """Return how our messages are written: as the app's own are, but never with pickle."""
    name = str(app.conf.task_serializer)
    return "json" if name in _PICKLES else name


def direct(queue: str) -> dict[str, Any]:
    """Return the options that bring a message to a queue, whatever a route of the app adds.

    A route for all tasks may name an exchange and a routing key, which would win over a queue.
    """
    return {"queue": queue, "exchange": "", "exchange_type": "direct", "routing_key": queue}
