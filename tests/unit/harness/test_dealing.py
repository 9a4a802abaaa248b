"""However many processes share the tests, each test is run once."""

from __future__ import annotations

import pytest

from tests.support.dealing import deal


@pytest.mark.parametrize("hands", [1, 2, 3, 4, 7, 100])
def test_each_test_is_dealt_once(request: pytest.FixtureRequest, hands: int) -> None:
    items = request.session.items
    dealt = deal(items, hands)
    assert sorted(item.nodeid for item in dealt) == sorted(item.nodeid for item in items)
    assert deal(items, hands) == dealt, "every process finds the same order"
