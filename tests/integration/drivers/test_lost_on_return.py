"""A connection that is lost between its commit and its pool fails nothing. The pool stays whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from outbox.store.connection.database import Database
from tests.integration.drivers.test_cut_connections import cut
from tests.support.shop.shop import Shop, Shops

pytestmark = [pytest.mark.databases("postgresql", "mariadb"), pytest.mark.each_driver]

Work = Callable[[sa.Connection], Any]
Way = Callable[[Database, Work], Any]


def nested(database: Database, work: Work) -> Any:
    """Run the work while another connection of the same thread is lent."""
    return database.read(lambda _: database.run(work))


WAYS: dict[str, Way] = {
    "run": Database.run,
    "read": Database.read,
    "run each": Database.run_each,
    "nested": nested,
}


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """Open a shop on an engine of its own, because of what the test does to the engine."""
    return shops.open_on(sa.create_engine(shops.url, pool_size=2, max_overflow=1))


@pytest.fixture
def cut_on_the_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """End all connections each time that one is about to go back to its pool."""
    reset, cuts = shop.engine.dialect.reset_isolation_level, list[str]()

    def cut_first(driver: Any) -> None:
        cut(str(shop.engine.url.render_as_string(hide_password=False)))
        cuts.append("cut")
        reset(driver)

    monkeypatch.setattr(shop.engine.dialect, "reset_isolation_level", cut_first)
    return cuts


@pytest.mark.matrix
@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "in turns"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_done_stays_done(
    shop: Shop, cut_on_the_way: list[str], way: Way, is_shared: bool
) -> None:
    if is_shared:
        shop.database.share(1)
    tries = pool(shop).size() + 3

    def insert(connection: sa.Connection) -> str:
        connection.execute(sa.insert(shop.orders).values(customer=f"c{len(cut_on_the_way)}"))
        return "done"

    for _ in range(tries):
        assert way(shop.database, insert) == "done"
        assert pool(shop).checkedout() == 0
        pool(shop).dispose()  # PostgreSQL's drivers learn of the loss only by the next statement
    assert cut_on_the_way
    assert shop.count(shop.orders) == tries


def pool(shop: Shop) -> QueuePool:
    found = shop.engine.pool
    assert isinstance(found, QueuePool)
    return found
