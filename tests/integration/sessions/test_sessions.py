"""An email is sent if and only if its order stands, in whatever session both are written."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from outbox.domain.errors import ConfigurationError
from tests.integration.sessions.outcomes import OUTCOMES, Outcome
from tests.integration.sessions.ways import WAYS, Way, in_session
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.over_and_over


def on(database: str) -> Any:
    """Run the test in each way that this database has, to each end."""
    ways = [way for way in WAYS if database in way.databases]

    def mark(test: Any) -> Any:
        test = pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)(test)
        test = pytest.mark.parametrize("way", ways, ids=lambda way: way.name)(test)
        return pytest.mark.databases(database)(pytest.mark.matrix(test))

    return mark


@on("sqlite")
def test_on_sqlite(way: Way, outcome: Outcome, shops: Shops) -> None:
    as_many_emails_as_orders(way.run(shops, outcome), way, outcome)


@on("postgresql")
def test_on_postgresql(way: Way, outcome: Outcome, shops: Shops) -> None:
    as_many_emails_as_orders(way.run(shops, outcome), way, outcome)


@on("mariadb")
def test_on_mariadb(way: Way, outcome: Outcome, shops: Shops) -> None:
    as_many_emails_as_orders(way.run(shops, outcome), way, outcome)


def as_many_emails_as_orders(shop: Shop, way: Way, outcome: Outcome) -> None:
    orders, emails = shop.count(shop.orders), shop.rows(shop.tables.email)
    assert len(emails) == orders
    if way.says or outcome.orders:
        assert orders == outcome.orders
    for email in emails:
        assert email.recipients == max(1, len(shop.recipients(email.id)))


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
@pytest.mark.databases("postgresql", "mariadb")
def test_a_pool_of_one_shared_connection_is_refused_by_name(outcome: Outcome, shops: Shops) -> None:
    with pytest.raises(ConfigurationError, match="StaticPool"):
        in_session(Session, poolclass=StaticPool)(shops, outcome)
    engine = sa.create_engine(shops.url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM orders")).scalar() == 0
    engine.dispose()
