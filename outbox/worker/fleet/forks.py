"""Has a fork wait while a thread of this process uses a SQLite database.

SQLite notes in the process's own memory which of its connections has locked a file. A child that is
forked meanwhile has a copy of that note, and nobody takes it back there: the child would find the
file locked for ever.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 5.0
"""Seconds. A thread that hangs holds no fork up for longer."""

_in_use = threading.Lock()
_forking = threading.local()


@contextmanager
def without_forks() -> Iterator[None]:
    """Have forks wait for the end of the block, but no longer than `LONGEST`."""
    with _in_use:
        yield


def _before() -> None:
    _forking.has_waited = _in_use.acquire(timeout=LONGEST)


def _after_in_parent() -> None:
    if _forking.has_waited:
        _in_use.release()


def _after_in_child() -> None:
    global _in_use
    _in_use = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has neither it nor forks
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
