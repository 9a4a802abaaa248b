"""A process whose beats the test gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from outbox.store.control import lease
from outbox.worker.leases.heartbeat import Heartbeat
from tests.unit.worker.leases.beating import SECONDS, Clock, Process, Table


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    table = Table()
    monkeypatch.setattr(lease, "renew", table.renew)
    return table


@pytest.fixture
def process(clock: Clock, table: Table) -> Iterator[Process]:
    process = Process(clock)
    yield process
    assert not process.hearts._hearts
    for thread in threading.enumerate():
        if thread.name in ("outbox-lease", "outbox-leases"):
            thread.join(SECONDS)
            assert not thread.is_alive()


@pytest.fixture
def heart(process: Process) -> Iterator[Heartbeat]:
    with process.batch() as heart:
        yield heart
