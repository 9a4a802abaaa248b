"""The outbox's time stands still while a test wants it to, in each statement that reads it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from outbox import ConfigurationError
from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, Shops, message, newsletter

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


def _moments(shop: Shop) -> set[datetime]:
    """Return every moment in the tables of the emails."""
    found = set()
    for table in (shop.tables.email, shop.tables.content, shop.tables.suppression):
        for row in shop.rows(table):
            found |= {value for value in row if isinstance(value, datetime)}
    return {moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment for moment in found}


@pytest.mark.each_database
def test_all_that_happens_while_it_stands_still_happens_at_one_moment(
    shop: Shop, tester: OutboxTester
) -> None:
    with tester.freeze(NOON) as moment:
        assert moment == NOON == tester.now() == tester.now()
        with shop.session() as session:
            shop.outbox.enqueue(message("one@x.example"), session=session)
            many = [f"{number}@x.example" for number in range(3)]
            shop.outbox.enqueue_many(newsletter(), many, session=session)
            session.commit()
        shop.outbox.suppress("nobody@x.example", "by hand")
        assert [email.due_at for email in tester.emails()] == [NOON] * 4
        tester.replies.at("RCPT", 451, "4.7.1 later", to="1@x.example")
        assert len(tester.drain()) == 3
        put_off = tester.assert_enqueued(to="1@x.example").due_at
        assert put_off is not None
        assert _moments(shop) == {NOON, put_off}
        assert tester.now() == NOON
    assert tester.now() < NOON


@pytest.mark.each_database
def test_travel_moves_it_and_it_stands_still_there(shop: Shop, tester: OutboxTester) -> None:
    tester.travel(days=1)
    before = tester.now()
    tester.freeze()
    assert timedelta() <= tester.now() - before < timedelta(hours=1)
    tester.freeze(NOON)
    tester.travel(minutes=10)
    assert tester.now() == NOON + timedelta(minutes=10)
    with shop.session() as session:
        at = NOON + timedelta(days=1, microseconds=123_456)
        shop.outbox.enqueue(message(), session=session, send_at=at)
        session.commit()
    assert tester.drain() == ()
    tester.travel_to(at)
    assert at <= tester.now() < at + timedelta(milliseconds=1)
    assert len(tester.drain()) == 1
    with pytest.raises(ValueError, match="forward only"):
        tester.travel_to(NOON)
    tester.unfreeze()
    tester.unfreeze()  # it goes on already
    assert tester.now() < NOON


@pytest.mark.databases("sqlite")
def test_it_stands_still_over_another_driver_too(shop: Shop, tester: OutboxTester) -> None:
    async def enqueue() -> None:
        engine = create_async_engine(shop.engine.url.set(drivername="sqlite+aiosqlite"))
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda sync: shop.outbox.enqueue(message(), session=sync))
            await session.commit()
        await engine.dispose()

    with tester.freeze(NOON):
        asyncio.run(enqueue())
        assert tester.assert_enqueued().due_at == NOON


@pytest.mark.one_database("postgresql")
def test_the_apps_own_statements_read_the_true_time(shop: Shop, tester: OutboxTester) -> None:
    tester.freeze(NOON)
    with shop.engine.connect() as connection:
        true = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
    assert true < NOON


@pytest.mark.one_database("sqlite")
def test_the_end_of_the_test_lets_it_go_on(shops: Shops) -> None:
    shop = shops.open(TESTING=True)
    with OutboxTester(shop.app) as tester:
        tester.freeze(NOON)
        with pytest.raises(ValueError, match="time zone"):
            tester.freeze(datetime(2026, 1, 1))  # noqa: DTZ001
    with OutboxTester(shop.app) as tester:
        assert tester.now() < NOON
    other = shops.open(TESTING=True)
    with OutboxTester(shop.app) as frozen, OutboxTester(other.app) as same:
        frozen.freeze(NOON)
        assert same.now() == NOON  # two apps on one database
        other.database.dialect = "mssql"
        with pytest.raises(ConfigurationError, match="mssql cannot be frozen"):
            same.freeze()
