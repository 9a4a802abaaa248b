"""What a recorder writes into, as the test has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.worker.together.recording import Table


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.close()
