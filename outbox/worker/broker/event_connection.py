"""Has a worker of greenlets on RabbitMQ take more than ten messages a second.

Its loop waits 0.1 s after each message for the connection over which Celery sends its events, so
that the broker's heartbeats do not pile up there. Heartbeats are seconds apart: a look each second
is enough. It holds for the app's own tasks, too, because the loop is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from celery.signals import worker_init
from celery.worker import loops

EVERY = 1.0
"""Seconds from one look at a connection to the next."""

NAME = "_quick_drain"
"""Celery's function that looks; before 5.5 its loop of greenlets does not call it."""

Drain = Callable[..., None]


def seldom(drain: Drain, clock: Callable[[], float] = time.monotonic) -> Drain:
    """Return a `drain` that passes over a connection at which it has just looked."""
    looked = WeakKeyDictionary[Any, float]()

    def drain_seldom(connection: Any, *args: Any, **options: Any) -> None:
        now = clock()
        if now - looked.get(connection, now - EVERY) >= EVERY:
            looked[connection] = now
            drain(connection, *args, **options)

    return drain_seldom


def _look_seldom(**_: Any) -> None:
    drain = getattr(loops, NAME, None)
    if drain is not None and drain.__module__ == loops.__name__:  # not done yet in this process
        setattr(loops, NAME, seldom(drain))


worker_init.connect(_look_seldom)
