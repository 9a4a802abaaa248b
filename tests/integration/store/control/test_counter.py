"""Counters that many processes count up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from outbox.store.control.counter import bump
from outbox.store.scrape import scrape
from tests.integration.store.locks import in_time
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

OURS = {"isolation_level": "READ COMMITTED"}


def test_counters_lose_no_count_when_many_count_at_once(shop: Shop) -> None:
    def count(_: int) -> None:
        shop.database.run(lambda c: bump(c, shop.database, "odd", 2))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(20)))
    assert shop.counter("odd") == 40
    assert shop.counter("even") == 0


def scraped(shop: Shop, name: str) -> int:
    return shop.database.read(lambda c: scrape(c, shop.database)).events[name]


def count_beside(shop: Shop, session: Session) -> None:
    in_time(lambda: shop.database.run(lambda c: bump(c, shop.database, "lost_it")), session)


@pytest.mark.databases("postgresql", "mariadb")
def test_whoever_counts_waits_for_no_row_that_another_transaction_holds(shop: Shop) -> None:
    """It may be that of a host that has vanished. Each count is exact all the same."""
    shop.database.run(lambda c: bump(c, shop.database, "lost_it"))
    shop.database.run(lambda c: bump(c, shop.database, "lostXit"))  # `_` is no wildcard
    with shop.session() as session:
        session.connection(execution_options=OURS)
        assert session.execute(select(shop.tables.counter).with_for_update()).all()
        for _ in range(3):
            count_beside(shop, session)
        assert shop.count(shop.tables.counter) == 3, "one row more, that the others take, too"
        assert shop.counter("lost_it") == scraped(shop, "lost_it") == 4
    assert shop.counter("lostXit") == 1


@pytest.mark.databases("postgresql", "mariadb")
def test_nobody_waits_for_the_first_row_of_a_counter(shop: Shop) -> None:
    with shop.session() as session:
        bump(session.connection(execution_options=OURS), shop.database, "lost_it")
        count_beside(shop, session)
        session.commit()
    assert shop.counter("lost_it") == scraped(shop, "lost_it") == 2
