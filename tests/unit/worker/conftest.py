"""A nudge or a recorder of its own for each test, and what they work on, as the test has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox.worker.process.wakeup import Nudge
from tests.unit.worker.nudging import Broker, Clock
from tests.unit.worker.recording import Table


@pytest.fixture
def held_broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nudge(held_broker: Broker, clock: Clock) -> Nudge:
    return Nudge(held_broker.publish, clock=clock)


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.close()
