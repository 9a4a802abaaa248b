"""Connections of the pool that the database has ended: who looks is told so, and then goes on."""

from __future__ import annotations

import pytest

from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql")

CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.mark.parametrize("look", ["health", "metrics"])
def test_an_ended_connection_is_told_and_replaced(shop: Shop, look: str) -> None:
    database, outbox = shop.database, shop.outbox
    database.read(lambda _: database.read(lambda _: None))  # two of the pool, both known
    with shop.engine.connect() as other:
        other.exec_driver_sql(CUT)
        if look == "metrics":
            assert "outbox_up 0" in outbox.metrics()
        else:
            [problem] = outbox.health().problems
            assert problem.startswith("the database ")
        assert outbox.health().healthy
