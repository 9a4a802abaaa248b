"""The loop of greenlets looks at the connection of Celery's events once a second."""

from __future__ import annotations

import pytest
from celery.worker import loops

from outbox.worker.broker import event_connection
from outbox.worker.broker.event_connection import EVERY, NAME, seldom


class Connection:
    """Anything that a weak reference may name."""


def test_each_connection_is_looked_at_once_in_a_while() -> None:
    looks, now = list[tuple[object, float]](), [100.0]
    first, second = Connection(), Connection()
    drain = seldom(lambda connection, timeout: looks.append((connection, now[0])), lambda: now[0])
    for _ in range(4):
        for connection in (first, second):
            drain(connection, timeout=0.1)
        now[0] += EVERY / 2
    assert looks == [(one, at) for at in (100.0, 100.0 + EVERY) for one in (first, second)]


@pytest.mark.skipif(not hasattr(loops, NAME), reason="an old Celery has no such function")
def test_a_worker_that_starts_has_celerys_loop_do_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, NAME, getattr(loops, NAME))  # as it was, at the end
    event_connection._look_seldom()
    changed = getattr(loops, NAME)
    assert changed.__module__ == event_connection.__name__
    event_connection._look_seldom()  # a process may start several workers
    assert getattr(loops, NAME) is changed
