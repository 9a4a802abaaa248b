"""The two ways of one database."""

from __future__ import annotations

import pytest

from tests.integration.twins import Twins, open_twins
from tests.support.shop.shop import Shops


@pytest.fixture
def twins(shops: Shops) -> Twins:
    return open_twins(shops)
