"""`enqueue_async` and its like in an AsyncSession: the same rows, errors and nudges as without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from outbox import ConfigurationError, InvalidMessage, KeyConflict, Outbox, Status
from outbox.worker.drain import drain
from tests.support.servers.databases.drivers import ASYNCHRONOUS, over
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database

PATIENCE = 30.0
Body: TypeAlias = Callable[[AsyncSession], Awaitable[None]]


def over_each_driver(shops: Shops, body: Body) -> int:
    """Run the body in an AsyncSession over each driver of this database; return their number."""

    async def run(driver: str) -> None:
        engine = create_async_engine(over(shops.url, driver), poolclass=NullPool)
        try:
            async with AsyncSession(engine) as session:
                await body(session)
        finally:
            await engine.dispose()

    drivers = ASYNCHRONOUS[sa.make_url(shops.url).get_backend_name()]
    for driver in drivers:
        asyncio.run(asyncio.wait_for(run(driver), PATIENCE))
    return len(drivers)


async def order(shop: Shop, session: AsyncSession, customer: str) -> None:
    await session.execute(sa.insert(shop.orders).values(customer=customer))


def test_an_email_commits_with_its_order_and_arrives(shops: Shops, catcher: Catcher) -> None:
    shop, made = shops.open(MAIL_PORT=catcher.port), list[int]()

    async def body(session: AsyncSession) -> None:
        name = session.get_bind().dialect.driver
        await order(shop, session, name)
        await shop.outbox.enqueue_async(message("lost@x.example"), session=session)
        await session.rollback()
        await order(shop, session, name)
        email = await shop.outbox.enqueue_async(
            message("a@x.example", "b@x.example"), session=session, key=name, tag="order"
        )
        made.append(email.id)
        assert shop.count(shop.tables.email) == len(made) - 1, "nothing is committed here"
        await session.commit()

    number = over_each_driver(shops, body)
    assert [row.id for row in shop.rows(shop.tables.email)] == made
    assert shop.count(shop.orders) == number
    drain(shop.runtime)
    assert [mail.recipients for mail in catcher.emails] == [("a@x.example", "b@x.example")] * number


def test_a_savepoint_takes_back_its_own_emails_only(shops: Shops) -> None:
    shop = shops.open()

    async def body(session: AsyncSession) -> None:
        name = session.get_bind().dialect.driver
        nested = await session.begin_nested()
        await shop.outbox.enqueue_async(message(), session=session, key=f"{name}, undone")
        await nested.rollback()
        async with session.begin_nested():
            await shop.outbox.enqueue_async(message(), session=session, key=f"{name}, kept")
        await session.commit()

    over_each_driver(shops, body)
    assert {row.key.partition(", ")[2] for row in shop.rows(shop.tables.email)} == {"kept"}


def test_many_are_written_and_withdrawn(shops: Shops) -> None:
    shop = shops.open()

    async def body(session: AsyncSession) -> None:
        many = shop.outbox.enqueue_many_async
        assert await many(newsletter(), addresses(30), session=session, tag="news") == 30
        texts = newsletter("Dear {{ name }}")
        fields = lambda to: {"name": to}  # noqa: E731
        assert await many(texts, addresses(2), session=session, fields=fields) == 2
        assert await many(map(message, addresses(3)), session=session) == 3
        assert await shop.outbox.cancel_async(tag="news", session=session) == 30
        await session.commit()

    number = over_each_driver(shops, body)
    assert shop.outbox.counts() == {Status.CANCELLED: 30 * number, Status.PENDING: 5 * number}


def test_a_commit_nudges_once_and_a_session_that_is_dropped_is_counted(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, nudges = shops.open(), list[int]()
    monkeypatch.setattr(shop.runtime, "find_celery", object)
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda: nudges.append(1))

    async def body(session: AsyncSession) -> None:
        before = len(nudges)
        await shop.outbox.enqueue_async(message(), session=session)
        await shop.outbox.enqueue_async(message(), session=session)
        assert len(nudges) == before
        await session.commit()
        assert len(nudges) == before + 1
        await shop.outbox.enqueue_async(message(), session=session)  # nobody commits it

    number = over_each_driver(shops, body)
    assert (len(nudges), shop.outbox.discarded) == (number, number)
    assert shop.count(shop.tables.email) == 2 * number


def test_errors_are_the_same_and_leave_the_session_usable(shops: Shops) -> None:
    shop = shops.open()

    async def body(session: AsyncSession) -> None:
        name = session.get_bind().dialect.driver
        enqueue = shop.outbox.enqueue_async
        await order(shop, session, name)
        with pytest.raises(InvalidMessage, match="max_attempts"):
            await enqueue(message(), session=session, max_attempts=0)
        await enqueue(message(), session=session, key=name)
        with pytest.raises(KeyConflict):
            await enqueue(message(subject="Other"), session=session, key=name)
        again = await enqueue(message(), session=session, key=name)
        assert not again.created
        await session.commit()

    number = over_each_driver(shops, body)
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == number


@pytest.mark.databases("postgresql", "mariadb")
def test_a_task_that_is_cancelled_while_it_waits_for_a_key_leaves_nothing(shops: Shops) -> None:
    shop = shops.open()

    async def body(session: AsyncSession) -> None:
        name = session.get_bind().dialect.driver
        with shop.session() as holder:
            shop.outbox.enqueue(message(), session=holder, key=name)
            await order(shop, session, name)
            waiting = shop.outbox.enqueue_async(message(), session=session, key=name)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting, 0.2)
            await session.close()
            holder.rollback()
        await shop.outbox.enqueue_async(message(), session=session, key=name)  # it is free
        await session.commit()

    number = over_each_driver(shops, body)
    assert shop.count(shop.orders) == 0
    assert shop.count(shop.tables.email) == number


KINDS: dict[str, Callable[[AsyncEngine], Any]] = {
    "AsyncSession": AsyncSession,
    "async_scoped_session": lambda engine: async_scoped_session(
        async_sessionmaker(engine), scopefunc=asyncio.current_task
    ),
}


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("kind", KINDS)
def test_without_await_an_asynchronous_session_is_refused_with_the_remedy(
    shop: Shop, kind: str
) -> None:
    outbox = shop.outbox

    async def run() -> int:
        engine = create_async_engine(over(str(shop.engine.url), "aiosqlite"), poolclass=NullPool)
        session = KINDS[kind](engine)
        for call in (
            lambda: outbox.enqueue(message(), session=session),
            lambda: outbox.enqueue_many([message()], session=session),
            lambda: outbox.cancel(id=1, session=session),
        ):
            with pytest.raises(ConfigurationError, match=r"await outbox\.enqueue_async"):
                call()
        await outbox.enqueue_async(message(), session=session)
        await session.commit()
        await session.close()
        await engine.dispose()
        return shop.count(shop.tables.email)

    assert asyncio.run(run()) == 1


@pytest.mark.databases("sqlite")
def test_with_await_any_other_session_is_refused_with_the_remedy(shop: Shop) -> None:
    given: dict[Any, str] = {
        Session(shop.engine): "is a Session: use outbox.enqueue",
        shop.sessions: "is a sessionmaker",
        None: "is a NoneType",
        async_sessionmaker(): "makes a new session at each call",
    }
    for session, said in given.items():
        with pytest.raises(ConfigurationError, match=said):
            asyncio.run(shop.outbox.enqueue_async(message(), session=session))
    assert shop.count(shop.tables.email) == 0


def test_autocommit_and_an_asynchronous_iterable_are_refused(shops: Shops) -> None:
    shop = shops.open()

    async def readers() -> AsyncIterator[str]:
        yield "a@x.example"

    async def body(session: AsyncSession) -> None:
        given: Any = readers()
        with pytest.raises(InvalidMessage, match="recipients: must be an ordinary iterable"):
            await shop.outbox.enqueue_many_async(newsletter(), given, session=session)
        engine = session.get_bind().execution_options(isolation_level="AUTOCOMMIT")
        async with AsyncSession(AsyncEngine(engine)) as careless:  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="in autocommit"):
                await shop.outbox.enqueue_async(message(), session=careless)

    over_each_driver(shops, body)
    assert shop.count(shop.tables.email) == 0


@pytest.mark.databases("sqlite")
def test_init_app_refuses_an_asynchronous_source_and_an_asynchronous_engine(shop: Shop) -> None:
    async def a_task() -> None:
        """Give the scope a current task."""

    sources = (async_sessionmaker(), async_scoped_session(async_sessionmaker(), scopefunc=a_task))
    for source in sources:
        with pytest.raises(ConfigurationError, match="init_app takes no asynchronous session"):
            opened(source, shop.engine)
    engine: Any = create_async_engine("sqlite+aiosqlite:///shop.db")
    for given in (engine, engine.sync_engine):
        with pytest.raises(ConfigurationError, match=r"aiosqlite, which is asynchronous: use one"):
            opened(None, given)


def opened(source: Any, engine: sa.Engine) -> None:
    Outbox().init_app(Flask("shop"), session=source, metadata=sa.MetaData(), engine=engine)


@pytest.mark.databases("sqlite")
def test_a_view_that_is_a_coroutine_enqueues(shop: Shop) -> None:
    @shop.app.post("/orders")
    async def place_order() -> str:
        engine = create_async_engine(over(str(shop.engine.url), "aiosqlite"), poolclass=NullPool)
        async with AsyncSession(engine) as session, session.begin():
            await order(shop, session, "Ada")
            await shop.outbox.enqueue_async(message(), session=session)
        await engine.dispose()
        return "placed"

    assert shop.app.test_client().post("/orders").text == "placed"
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 1
