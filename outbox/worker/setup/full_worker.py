"""Has a worker of threads or greenlets, all of which are busy, notice at once that one is free.

Celery takes no message while all are busy, and its loop then sleeps until something comes over a
connection: up to one second, or two with greenlets. A child process that ends a task tells the loop
so, and a thread does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.bootsteps import StartStopStep
from celery.worker import state

from ..broker.worker_steps import add_to_each_worker

LOOK = 0.01
"""Seconds between two looks while all are busy. A look takes some microseconds."""

_IN_ONE_PROCESS = tuple(f"celery.concurrency.{name}" for name in ("thread", "gevent"))

Poll = Callable[[float | None], Any]


def runs_in_one_process(pool: str) -> bool:
    """Return whether a pool runs its tasks in the worker's own process; it is "module:class"."""
    return pool.startswith(_IN_ONE_PROCESS)


def watchful(poll: Poll, is_full: Callable[[], bool]) -> Poll:
    """Return a `poll` that also ends when the worker is full no longer."""

    def look(timeout: float | None = None) -> Any:
        if not is_full():
            return poll(timeout)
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            events = poll(max(0.0, min(LOOK, left)))
            if events or left <= LOOK or not is_full():
                return events

    return look


class Lookout(StartStopStep):  # type: ignore[misc]  # Celery is untyped
    """A step of the worker's start that has its loop look for free threads or greenlets."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Replace how this connection's loop waits: each connection has a loop of its own."""
        poller = _poller(consumer)
        if poller is not None and runs_in_one_process(type(consumer.pool).__module__):
            poller.poll = watchful(type(poller).poll.__get__(poller), lambda: _is_full(consumer))


def _poller(consumer: Any) -> Any:
    """Return what the loop waits with; None where that is no poller, as with greenlets on AMQP."""
    if consumer.hub is not None:
        return consumer.hub.poller
    cycle = getattr(consumer.connection.transport, "cycle", None)
    return getattr(cycle, "poller", None)


def _is_full(consumer: Any) -> bool:
    most = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
    return bool(len(state.reserved_requests) >= most)


add_to_each_worker(Lookout)
