"""A shop under `TESTING`, and what a test of that shop uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, Shops


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop as its own tests open it: its mail server is not there."""
    return shops.open(TESTING=True)


@pytest.fixture
def tester(shop: Shop) -> Iterator[OutboxTester]:
    with OutboxTester(shop.app) as tester:
        yield tester
