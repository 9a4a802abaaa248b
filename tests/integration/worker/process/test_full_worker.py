"""A full worker's loop ends its wait once a thread or greenlet is free, though nothing came."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.thread import TaskPool as Threads
from celery.worker import state
from kombu.utils import eventio

from outbox.worker.setup.full_worker import Lookout, runs_in_one_process, watchful
from tests.support.waiting import wait_until

_LONG = 60.0
"""Seconds that the loop wants to wait."""

_PATIENCE = 20.0


class _Requests(set[str]):
    """What Celery keeps of the tasks that a worker has taken."""

    def __init__(self) -> None:
        super().__init__(["one"])
        self.counted = threading.Event()  # somebody saw that the worker is full

    def __len__(self) -> int:
        length = super().__len__()
        self.counted.set()
        return length


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> _Requests:
    """One request that the worker has taken, and no other: other tests may have left some."""
    requests = _Requests()
    monkeypatch.setattr(state, "reserved_requests", requests)
    return requests


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def _consumer(poller: Any, pool: Any, *, has_hub: bool) -> Any:
    """Return as much of Celery's consumer as the step looks at."""
    cycle = SimpleNamespace(poller=poller)
    return SimpleNamespace(
        hub=SimpleNamespace(poller=poller) if has_hub else None,
        connection=SimpleNamespace(transport=SimpleNamespace(cycle=cycle)),
        pool=pool,
        controller=SimpleNamespace(max_concurrency=None),
    )


def _poller() -> Any:
    make: Any = eventio.poll
    return make()


def _pool(kind: Any, processes: int) -> Any:
    made = kind.__new__(kind)
    made.limit = processes
    return made


class _Waiting(threading.Thread):
    """A loop that waits with this poller."""

    def __init__(self, poller: Any) -> None:
        super().__init__(daemon=True)
        self._poller = poller
        self.events: Any = None

    def run(self) -> None:
        self.events = self._poller.poll(_LONG)


def _begun(connection: int, *, has_hub: bool) -> _Waiting:
    """Return the loop of a worker of one thread, which waits for this connection."""
    poller = _poller()
    poller.register(connection, eventio.READ)
    consumer = _consumer(poller, _pool(Threads, 1), has_hub=has_hub)
    Lookout(consumer).start(consumer)
    loop = _Waiting(poller)
    loop.start()
    return loop


@pytest.mark.parametrize("has_hub", [True, False], ids=["event loop", "blocking loop"])
def test_the_wait_ends_when_a_task_does(
    has_hub: bool, pipe: tuple[int, int], taken: _Requests
) -> None:
    loop = _begun(pipe[0], has_hub=has_hub)
    assert taken.counted.wait(_PATIENCE)
    assert loop.is_alive()
    taken.clear()
    wait_until(lambda: not loop.is_alive(), _PATIENCE, "the loop to see a free thread")
    assert not loop.events


def test_what_comes_over_a_connection_ends_the_wait_of_a_full_worker(
    pipe: tuple[int, int], taken: _Requests
) -> None:
    loop = _begun(pipe[0], has_hub=True)
    os.write(pipe[1], b"x")
    wait_until(lambda: not loop.is_alive(), _PATIENCE, "the loop to see the byte")
    assert [fd for fd, _ in loop.events] == [pipe[0]]


def test_a_worker_with_a_free_thread_waits_as_it_always_did() -> None:
    waits: list[float | None] = []
    watchful(waits.append, lambda: False)(_LONG)
    assert waits == [_LONG]


def test_child_processes_tell_the_loop_themselves() -> None:
    poller = _poller()
    consumer = _consumer(poller, _pool(Prefork, 1), has_hub=True)
    Lookout(consumer).start(consumer)
    assert "poll" not in vars(poller)


@pytest.mark.parametrize(
    ("pool", "is_one"),
    [
        ("celery.concurrency.thread:TaskPool", True),
        ("celery.concurrency.gevent:TaskPool", True),
        ("celery.concurrency.prefork:TaskPool", False),
        ("celery.concurrency.solo:TaskPool", False),
    ],
)
def test_which_pools_run_their_tasks_in_one_process(pool: str, is_one: bool) -> None:
    assert runs_in_one_process(pool) is is_one
