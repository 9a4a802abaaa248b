"""What stands beside a silent server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.blame.server import ClassServer


@pytest.fixture
def well() -> Iterator[ClassServer]:
    with ClassServer() as one:
        one.refuses = lambda _: False
        yield one
