"""A shop with a dashboard, and a visitor of it."""

from __future__ import annotations

import pytest

from tests.integration.dashboard.desk import Desk
from tests.support.shop.shop import Shops


@pytest.fixture
def desk(shops: Shops) -> Desk:
    """A dashboard whose visitor may act."""
    return Desk(shops)
