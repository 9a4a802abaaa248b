"""Makes a shutdown request (SIGTERM) known in every process of a worker.

A batch asks between its windows (`sending`), the throttle while it waits, and a write while the
database is away. The window is finished, and the rest of the batch is given back.

Celery's `worker_shutting_down` fires in the worker's parent process only. A byte of memory that is
shared with every child forked later passes it on. Each worker has a byte of its own: two of them
may have been forked by one process that had imported this module.
"""

from __future__ import annotations

import mmap
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_init, worker_shutting_down

_flag = mmap.mmap(-1, 1)
"""The byte; before a worker begins it is shared with others, and nobody sets it."""


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


def _begin(**_: Any) -> None:
    global _flag
    _flag = mmap.mmap(-1, 1)


worker_shutting_down.connect(_request)
worker_init.connect(_begin)
