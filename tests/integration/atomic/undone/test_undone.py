"""A statement failed, somebody swallowed its error, and the database undid the transaction.

Then a commit seems to work and nothing stands. So a session with emails in it refuses the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from outbox import ConfigurationError, KeyContention
from tests.integration.atomic.undone.undoing import (
    FAILURES,
    PATIENCE,
    REFUSED,
    Act,
    divide_by_zero,
    fail,
    place,
    refused,
    stand,
)
from tests.support.servers.databases.drivers import ASYNCHRONOUS, over
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database


def test_a_commit_behind_an_error_that_was_swallowed_is_refused(shop: Shop) -> None:
    with shop.session() as session:
        place(shop, session)
        fail(shop, session)
        refused(session)
        place(shop, session)
        session.commit()
    stand(shop, 1)


@pytest.mark.databases("sqlite", "mariadb")
def test_so_is_one_with_an_email_behind_the_error(shop: Shop) -> None:
    """It would leave without its order. PostgreSQL refuses the enqueue itself."""
    with shop.session() as session:
        shop.order(session)
        fail(shop, session)
        shop.outbox.enqueue(message(), session=session)
        refused(session)
    stand(shop, 0)


@pytest.mark.parametrize("ends", ["close", "commit"])
def test_a_second_session_on_the_connection_that_ends_takes_nothing_from_the_first(
    ends: str, shop: Shop
) -> None:
    with shop.engine.connect() as connection, Session(connection) as session:
        place(shop, session)
        with Session(connection) as second:
            second.execute(sa.select(sa.func.count()).select_from(shop.orders))
            getattr(second, ends)()
        fail(shop, session)
        refused(session)
    stand(shop, 0)


def test_nor_does_the_first_from_the_second(shop: Shop) -> None:
    with shop.engine.connect() as connection, connection.begin():
        with Session(connection) as first:
            first.execute(sa.select(sa.func.count()).select_from(shop.orders))
            session = Session(connection, join_transaction_mode="control_fully")
            place(shop, session)
        fail(shop, session)
        refused(session)
        session.close()
    stand(shop, 0)


class Translated(Exception):
    """An error of the app's own."""


def translate(context: sa.engine.ExceptionContext) -> None:
    raise Translated from context.original_exception


@pytest.mark.databases("sqlite", "mariadb")
@pytest.mark.parametrize("of_all_engines", [False, True])
def test_an_error_that_a_listener_of_the_apps_translates_counts(
    of_all_engines: bool, shop: Shop
) -> None:
    heard = sa.Engine if of_all_engines else shop.engine
    sa.event.listen(heard, "handle_error", translate)
    try:
        with shop.session() as session:
            place(shop, session)
            with pytest.raises(Translated):
                FAILURES[shop.engine.dialect.name](shop, session)
            refused(session)
    finally:
        sa.event.remove(heard, "handle_error", translate)
    stand(shop, 0)


def test_a_session_without_emails_is_left_alone(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        fail(shop, session)
        session.commit()
    assert shop.count(shop.orders) == 0


@pytest.mark.databases("postgresql")
def test_a_savepoint_takes_the_error_back(shop: Shop) -> None:
    with shop.session() as session:
        place(shop, session)
        with pytest.raises(DBAPIError), session.begin_nested():
            divide_by_zero(shop, session)
        session.commit()
    stand(shop, 1)


@pytest.mark.databases("postgresql", "sqlite")
def test_an_error_is_swallowed_in_an_asynchronous_session(shops: Shops) -> None:
    shop = shops.open()

    async def run(driver: str) -> None:
        engine = create_async_engine(over(shops.url, driver), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda sync: place(shop, sync))
            await session.run_sync(lambda sync: fail(shop, sync))
            await session.run_sync(refused)
        await engine.dispose()

    for driver in ASYNCHRONOUS[sa.make_url(shops.url).get_backend_name()]:
        asyncio.run(asyncio.wait_for(run(driver), PATIENCE))
    stand(shop, 0)


@pytest.mark.databases("postgresql")
def test_over_asyncpg_a_savepoint_takes_the_error_back_too(shops: Shops) -> None:
    """This driver does not tell, so the database is asked after an error."""
    shop = shops.open()

    async def run() -> None:
        engine = create_async_engine(over(shops.url, "asyncpg"), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda sync: place(shop, sync))
            with suppress(DBAPIError):
                async with session.begin_nested():
                    await session.execute(sa.text("SELECT 1/0"))
            await session.commit()
        await engine.dispose()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    stand(shop, 1)


@contextmanager
def locked(shop: Shop) -> Iterator[None]:
    """A migration holds the outbox's tables."""
    with shop.engine.connect() as other:
        other.execute(sa.text("LOCK TABLE outbox_email IN ACCESS EXCLUSIVE MODE"))
        yield
        other.rollback()


ENQUEUES: dict[str, Act] = {
    "one": lambda shop, session: shop.outbox.enqueue(message(), session=session),
    "one with a key": lambda shop, session: shop.outbox.enqueue(
        message(), session=session, key="1"
    ),
    "cancel": lambda shop, session: shop.outbox.cancel(tag="news", session=session),
}
MANY: dict[str, Act] = {
    "shared": lambda shop, session: shop.outbox.enqueue_many(
        newsletter(), addresses(3), session=session
    ),
    "different": lambda shop, session: shop.outbox.enqueue_many(
        map(message, addresses(3)), session=session
    ),
}


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
@pytest.mark.parametrize("name", ENQUEUES)
def test_an_error_of_the_outbox_itself_is_swallowed(name: str, driver: str, shops: Shops) -> None:
    shop = shops.open_on(sa.create_engine(over(shops.url, driver)))
    with shop.session() as session:
        shop.order(session)
        session.execute(sa.text("SET LOCAL lock_timeout = '1ms'"))
        with locked(shop), pytest.raises(DBAPIError):
            ENQUEUES[name](shop, session)
        refused(session)
    stand(shop, 0)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("name", MANY)
def test_many_that_fail_leave_the_transaction_usable(name: str, shop: Shop) -> None:
    """They are under a savepoint of their own."""
    with shop.session() as session:
        shop.order(session)
        session.execute(sa.text("SET LOCAL lock_timeout = '1ms'"))
        with locked(shop), pytest.raises((DBAPIError, KeyContention)):
            MANY[name](shop, session)
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    stand(shop, 1)


@pytest.mark.databases("postgresql", "sqlite")
@pytest.mark.parametrize("name", ["before_commit", "after_flush"])
def test_an_error_within_the_commit_itself_is_swallowed(name: str, shop: Shop) -> None:
    """A listener of the app's works in the session behind our own look at it."""
    mapped, order = sa.orm.registry(metadata=shop.orders.metadata), type("Order", (), {})
    mapped.map_imperatively(order, shop.orders)
    with shop.session() as session:
        place(shop, session)
        session.add(order())
        sa.event.listen(session, name, lambda session, *_: fail(shop, session), once=True)
        with pytest.raises(ConfigurationError, match=REFUSED):
            session.commit()
        session.rollback()
    mapped.dispose()
    stand(shop, 0)


@pytest.mark.databases("postgresql")
def test_two_phases_are_refused_before_the_first(shop: Shop, elsewhere: str) -> None:
    other = sa.create_engine(elsewhere)
    with Session(shop.engine, twophase=True) as session:
        place(shop, session)
        there = {"bind_arguments": {"bind": other}}
        session.execute(sa.text("INSERT INTO orders (customer) VALUES ('Ada')"), **there)
        with pytest.raises(DBAPIError):
            session.execute(sa.text("SELECT 1/0"), **there)
        with pytest.raises(SQLAlchemyError, match=REFUSED):
            session.commit()
    other.dispose()
    stand(shop, 0)
