"""A whole system for each test, and an SMTP server that stamps what it accepts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.recorder import Recorder
from tests.support.system.system import System, running


@pytest.fixture
def settings() -> dict[str, object]:
    """What the tests of a file set for their system."""
    return {}


@pytest.fixture
def system(
    database_url: str, broker: Broker, catcher: Catcher, settings: dict[str, object]
) -> Iterator[System]:
    """A system on each database; nothing of Celery runs until the test starts it."""
    with running(database_url, broker, catcher, **settings) as made:
        yield made


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """An SMTP server that stamps what it accepts; the system's settings have to name its port."""
    with Recorder() as server:
        yield server
