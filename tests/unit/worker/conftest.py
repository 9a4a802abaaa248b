"""A nudge of its own for each test, and what it works on, as the test has it."""

from __future__ import annotations

import pytest

from outbox.worker.process.nudge import Nudge
from tests.unit.worker.nudge.nudging import Broker, Clock


@pytest.fixture
def held_broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nudge(held_broker: Broker, clock: Clock) -> Nudge:
    return Nudge(held_broker.publish, clock=clock)
