"""The batches that this process has in hand: none is in the hands of two of its tasks.

A start whose commit had its reply lost is asked for again, and then finds the lease started by this
process. That was its own start, because no other task of the process has the token.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

_tasks: dict[UUID, object] = {}


@contextmanager
def take_in_hand(token: UUID) -> Iterator[bool]:
    """Take the batch of this token in hand; yield False where another task has it already."""
    task = object()
    is_free = _tasks.setdefault(token, task) is task  # one step, so it needs no lock
    try:
        yield is_free
    finally:
        if is_free:
            del _tasks[token]
