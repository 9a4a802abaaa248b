"""Makes a shutdown request (SIGTERM) known in every process of a worker.

A batch asks between its windows (`sending`), the throttle while it waits, and a write while the
database is away. The window is finished, and the rest of the batch is given back.

Celery's `worker_shutting_down` fires in the worker's parent process only. A byte of memory that is
shared with every child forked later passes it on. Each worker has a byte of its own: two of them
may have been forked by one process that had imported this module.

Two shutdowns are not told by that signal in time. A soft one tells it after its time-out, for which
the worker sleeps. One by remote control (`celery control shutdown`) does not tell it at all.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

from celery.apps.worker import Worker
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_init, worker_shutting_down

_flag = mmap.mmap(-1, 1)
"""The byte; before a worker begins it is shared with others, and nobody sets it."""

_BEGINNINGS = ("wait_for_soft_shutdown", "signal_consumer_close")
"""The worker's methods with which such a shutdown begins. Celery has the first one since 5.5."""


def requested() -> bool:
    """Return whether a warm shutdown was requested: finish the window, and give back the rest."""
    return _flag[0] != 0


def is_nobodys_fault(error: BaseException) -> bool:
    """Return whether an error only ends the task or the process: no email has caused it."""
    return (
        requested() or isinstance(error, SoftTimeLimitExceeded) or not isinstance(error, Exception)
    )


def _request(**_: Any) -> None:
    _flag[0] = 1


def _begin(sender: Any = None, **_: Any) -> None:
    global _flag
    _flag = mmap.mmap(-1, 1)
    if _is_a_process_of_its_own(sender):
        for name in _BEGINNINGS:
            if hasattr(sender, name):
                setattr(sender, name, _requesting(getattr(sender, name)))


def _is_a_process_of_its_own(worker: Any) -> bool:
    """Return whether its process ends with it. That of a worker for tests goes on to send."""
    return isinstance(worker, Worker)


def _requesting(method: Callable[[], None]) -> Callable[[], None]:
    def request_first() -> None:
        _request()
        method()

    return request_first


worker_shutting_down.connect(_request)
worker_init.connect(_begin)
