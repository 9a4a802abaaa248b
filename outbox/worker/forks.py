"""Has a fork wait while another thread of this process is in the midst of what a child cannot end.

A thread that publishes to the broker may be importing the broker's client, as the first one does.
No thread goes on in the child: it would find half a module, whose lock nobody ever gives back. Then
each publish fails there or hangs, and those of the app's own tasks, too.

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


class _Blocks:
    """The blocks that threads of this process are in; a child of a fork begins without any."""

    def __init__(self) -> None:
        self.changed = threading.Condition()  # a fork holds its lock: no block begins meanwhile
        self.threads = list[int]()

    def enter(self, thread: int) -> None:
        with self.changed:
            self.threads.append(thread)

    def leave(self, thread: int) -> None:
        with self.changed:
            if thread in self.threads:
                self.threads.remove(thread)
            self.changed.notify_all()

    def are_over(self) -> bool:
        """Return whether no other thread is in a block."""
        # A fork within a block cannot wait for its end, nor for that of another greenlet: gevent's
        # have the number of the one thread in which all of them run.
        own = threading.get_native_id()
        return all(thread == own for thread in self.threads)


_blocks = _Blocks()
_forking = threading.local()


@contextmanager
def without_forks() -> Iterator[None]:
    """Have forks wait for the end of the block, but no longer than `LONGEST`.

    Several threads may be in such a block at a time.
    """
    blocks, thread = _blocks, threading.get_native_id()
    try:
        blocks.enter(thread)  # a handler of a signal may raise right behind it
        yield
    finally:
        if blocks is _blocks:  # in a child that was forked within the block nothing is left to end
            blocks.leave(thread)


def _before() -> None:
    _forking.has_lock = False
    _forking.has_lock = _blocks.changed.acquire(timeout=LONGEST)
    if _forking.has_lock:
        _blocks.changed.wait_for(_blocks.are_over, LONGEST)


def _after_in_parent() -> None:
    if _forking.has_lock:
        _blocks.changed.release()


def _after_in_child() -> None:
    global _blocks
    _blocks = _Blocks()


if hasattr(os, "register_at_fork"):  # Windows has neither it nor forks
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
