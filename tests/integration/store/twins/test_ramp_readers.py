"""All who read how a server stands go by one rule, in SQL or in Python: on the same rows."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox.domain.delivery.breaker_timing import (
    RAMP,
    RAMP_SECONDS,
    BreakerState,
    Cause,
    ramp_limit,
)
from outbox.store.control import circuit_breaker
from outbox.store.queries.server_status import server_statuses
from outbox.store.queries.sweep import server_limits
from tests.integration.twins import at, open_twins
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import limits

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture
def still(shops: Shops) -> Shop:
    """A shop where no time passes."""
    return open_twins(shops).shop


SERVER = "mx.example:25"
ENDS = [-RAMP_SECONDS, *(float(end) for end, _ in RAMP)]
AGES = sorted({-3600.0, -1.0, 0.0, *(end + d for end in ENDS for d in (-1e-6, 0.0, 1e-6))})


@pytest.mark.parametrize("age", AGES)
def test_all_who_read_the_ramp_go_by_its_rule(still: Shop, age: float) -> None:
    """The sweep, a batch and a person; the SQL looks back as far as the rule does."""
    table = still.tables.server
    with still.engine.begin() as connection:
        connection.execute(sa.insert(table).values(name=SERVER, recovered_at=at(-age)))
    rule = ramp_limit(age)
    database = still.database
    assert limits(still).get(SERVER) == rule
    assert database.read(lambda c: server_limits.ramps(c, database)).get(SERVER) == rule
    (shown,) = database.read(lambda c: server_statuses(c, database, [SERVER]))
    assert shown.batches_allowed == rule
    recovering = sa.select(server_limits.recovering(database))
    assert database.read(lambda c: c.execute(recovering).scalar_one()) is (rule is not None)


@pytest.mark.parametrize("left", [-1.0, 0.0, 1e-6, 5.0])
def test_a_breaker_is_half_open_for_all_who_ask(still: Shop, left: float) -> None:
    row = {
        "server": SERVER, "state": BreakerState.OPEN, "cause": Cause.SESSION, "failures": 1,
        "opened_at": at(-60), "retry_at": at(left), "alert": False, "reason": "refused",
    }  # fmt: skip
    with still.engine.begin() as connection:
        connection.execute(sa.insert(still.tables.breaker).values(**row))
    database = still.database
    found = database.read(lambda c: circuit_breaker.read(c, database))[SERVER]
    is_half_open = left <= 0.0
    assert (found.state is BreakerState.HALF_OPEN) is is_half_open
    assert (limits(still)[SERVER] == server_limits.HALF_OPEN) is is_half_open
