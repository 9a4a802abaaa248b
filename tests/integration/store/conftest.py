"""Workers that wait for no lock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.shop.shop import Shops
from tests.support.shop.watching.impatient import impatient_url


@pytest.fixture
def workers(database_url: str, shops: Shops) -> Iterator[Shops]:
    """Opens shops whose connections wait for no lock."""
    opened = Shops(url=impatient_url(database_url), has_tables=True, shared=shops.shared.apart())
    yield opened
    opened.close()
