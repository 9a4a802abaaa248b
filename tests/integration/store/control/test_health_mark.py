"""The mark of health: who turns it is told so, and nobody else."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.store.control.counter import HEALTH
from outbox.store.control.health_mark import turn
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


@pytest.mark.matrix
@pytest.mark.parametrize("healthy", [True, False])
@pytest.mark.parametrize("before", [None, 0, 17])
def test_it_turns_once(shop: Shop, healthy: bool, before: int | None) -> None:
    mark = shop.tables.counter
    if before is not None:
        with shop.engine.begin() as connection:
            connection.execute(sa.insert(mark).values(name=HEALTH, value=before))
    has_turned = bool(before) if healthy else not before
    assert [turn(shop.database, healthy=healthy) for _ in range(2)] == [has_turned, False]
    values = [row.value for row in shop.rows(mark, mark.c.name == HEALTH)]
    assert list(map(bool, values)) == ([] if before is None and healthy else [not healthy])
    assert not has_turned or values != [before]
