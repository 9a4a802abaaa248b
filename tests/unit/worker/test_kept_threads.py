"""What two tasks of a process leave to it at the same time is waited for at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from outbox.store.connection.database import Database
from outbox.worker.process.unended import Unended
from outbox.worker.process.unrecorded import Unrecorded
from tests.support.shop.shop import sent

Keep = Callable[[UUID], None]


def no_database() -> Database:
    raise OSError("it is away")


def unrecorded() -> tuple[Unrecorded, Keep]:
    kept = Unrecorded(no_database, lambda: "host:1")
    return kept, lambda token: kept.keep(token, [sent(1)])


def unended() -> tuple[Unended, Keep]:
    kept = Unended(no_database, lambda: "host:1")
    return kept, kept.keep


@pytest.mark.parametrize("make", [unrecorded, unended])
def test_neither_forgets_the_other_s_thread(
    make: Callable[[], tuple[Unrecorded | Unended, Keep]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, keep = make()
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda one: started.append(one))

    def is_alive(_: threading.Thread) -> bool:
        if len(started) < 3:  # the other task comes while this one looks which threads live
            keep(uuid4())
        return True

    monkeypatch.setattr(threading.Thread, "is_alive", is_alive)
    keep(uuid4())
    keep(uuid4())
    joined: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "join", lambda one, _: joined.append(one))
    kept.wait(0.0)
    assert set(joined) == set(started)
