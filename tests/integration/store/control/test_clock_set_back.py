"""A database's clock that was an hour ahead and is set back: nothing waits for an hour for that."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.store.control import circuit_breaker
from outbox.store.queries.server_status import standings
from outbox.store.queries.sweep import server_limits
from tests.integration.store.queries.test_lanes import swept
from tests.support.shop.motion import limits
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.each_database

HOUR = 3600.0
SERVER = "127.0.0.1:1"


def test_a_server_that_came_back_while_it_was_ahead_has_no_ramp_for_an_hour(shops: Shops) -> None:
    shop = shops.open(OUTBOX_BATCH=1, OUTBOX_WINDOW=1)
    shop.later(HOUR)
    circuit_breaker.trip(shop.database, SERVER, cause=Cause.SESSION, reason="connect: refused")
    circuit_breaker.close(shop.database, SERVER)
    assert limits(shop) == {SERVER: 1}
    shop.later(-HOUR)
    assert shop.database.read(lambda c: server_limits.ramps(c, shop.database)) == {}
    (shown,) = shop.database.read(lambda c: standings(c, shop.database, [SERVER]))
    assert (shown.state, shown.batches_allowed) == ("closed", None)
    for _ in range(3):
        shop.enqueue()
    assert len(swept(shop)) == 3
