"""The outbox's time stands still while a test wants it to, in each statement that reads it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from outbox import ConfigurationError, InvalidMessage
from outbox.testing import OutboxTester
from tests.support.shop.shop import Shop, Shops, message, newsletter

LONG = 30.0
NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


def _moments(shop: Shop) -> set[datetime]:
    """Return every moment in the tables of the emails."""
    found = set()
    for table in (shop.tables.email, shop.tables.content, shop.tables.suppression):
        for row in shop.rows(table):
            found |= {value for value in row if isinstance(value, datetime)}
    return {moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment for moment in found}


@pytest.mark.long
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
def test_an_expires_at_has_passed_by_the_frozen_clock(shop: Shop, tester: OutboxTester) -> None:
    past, hour = datetime(2001, 1, 1, tzinfo=UTC), timedelta(hours=1)
    with tester.freeze(past):
        shop.enqueue(expires_at=past + hour)
        assert len(tester.drain()) == 1
        with pytest.raises(InvalidMessage) as caught:
            shop.enqueue(expires_at=past)
        assert caught.value.rule == "has passed already, by the outbox's frozen clock"
        tester.travel(hours=2)
        with pytest.raises(InvalidMessage):
            shop.enqueue(expires_at=past + hour)
    with pytest.raises(InvalidMessage, match="by this host's clock"):
        shop.enqueue(expires_at=past + hour)
    with tester.freeze(NOON), pytest.raises(InvalidMessage):
        shop.enqueue(expires_at=NOON - hour)


@pytest.mark.databases("sqlite")
def test_after_a_travel_an_expires_at_is_compared_with_pythons_clock(
    shop: Shop, tester: OutboxTester
) -> None:
    """The app computes it by that clock; the outbox's own time lets the email expire."""
    tester.travel(days=1)
    shop.enqueue(expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert tester.drain() == ()
    assert tester.assert_enqueued().status == "expired"
    tester.close()
    tester.travel(days=2)
    with pytest.raises(InvalidMessage, match="by this host's clock"):
        shop.enqueue(expires_at=datetime.now(UTC) - timedelta(hours=1))


@pytest.mark.databases("sqlite")
def test_a_tester_that_is_closed_leaves_the_apps_clock_as_it_was(shop: Shop) -> None:
    state = shop.app.extensions["outbox"]
    before = state.clock
    with OutboxTester(shop.app) as tester:
        tester.freeze(NOON)
        assert state.clock().moment == NOON
    assert state.clock is before


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


@pytest.mark.databases("postgresql")
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


@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize(
    ("moment", "told"),
    [
        (datetime(2031, 5, 1, 12), "the moment needs a time zone"),  # noqa: DTZ001
        (None, "the moment must be a datetime, such as .* not None"),
        ("x", "the moment must be a datetime, such as .* not 'x'"),
    ],
)
def test_a_moment_without_a_zone_and_what_is_no_moment_are_refused(
    tester: OutboxTester, moment: Any, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        tester.travel_to(moment)
    if moment is not None:  # which freezes the moment that is
        with pytest.raises(ValueError, match=told):
            tester.freeze(moment)


@pytest.mark.one_database("sqlite")
def test_another_thread_is_in_the_midst_of_a_statement(shop: Shop, tester: OutboxTester) -> None:
    """As that of a live server is: SQLAlchemy goes through the listeners without a lock."""
    within, done = threading.Event(), threading.Event()

    def listener(*_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            within.set()
            assert done.wait(LONG)

    sa.event.listen(sa.Engine, "before_cursor_execute", listener)
    try:
        with ThreadPoolExecutor(1) as pool:
            for act in (lambda: tester.freeze(NOON), tester.unfreeze):
                waits = pool.submit(shop.statuses)
                assert within.wait(LONG)
                act()
                done.set()
                assert waits.result(LONG) == []
                within.clear()
                done.clear()
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", listener)
