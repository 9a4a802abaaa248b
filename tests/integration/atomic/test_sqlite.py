"""SQLite begins no transaction for a savepoint: where nobody else does, the outbox begins one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from outbox import Outbox
from tests.support.shop.shop import Shop, Shops, message, newsletter

pytestmark = pytest.mark.databases("sqlite")

WAYS: dict[str, Callable[[Outbox, Session], object]] = {
    "plain": lambda outbox, session: outbox.enqueue(message(), session=session),
    "keyed": lambda outbox, session: outbox.enqueue(message(), session=session, key="1"),
    "several": lambda outbox, session: outbox.enqueue(
        message("a@x.example", "b@x.example"), session=session
    ),
    "enqueue_many": lambda outbox, session: outbox.enqueue_many(
        newsletter(), ["a@x.example"], session=session
    ),
}


def emails(shop: Shop) -> tuple[int, int]:
    return shop.count(shop.orders), shop.count(shop.tables.email)


@pytest.mark.parametrize("way", WAYS)
def test_a_savepoint_as_the_first_statement_commits_nothing_by_itself(shop: Shop, way: str) -> None:
    """Given a savepoint that was released, when the session rolls back, nothing stands."""
    with shop.session() as session:
        with session.begin_nested():
            shop.order(session)
            WAYS[way](shop.outbox, session)
        session.rollback()
    assert emails(shop) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_savepoint_after_a_read_commits_nothing_by_itself(shop: Shop, way: str) -> None:
    with shop.session() as session:
        session.execute(sa.select(shop.orders)).all()
        with session.begin_nested():
            shop.order(session)
            WAYS[way](shop.outbox, session)
        assert emails(shop) == (0, 0)
        session.rollback()
    assert emails(shop) == (0, 0)


def test_a_savepoint_that_is_rolled_back_takes_its_email_only(shop: Shop) -> None:
    with shop.session() as session:
        nested = session.begin_nested()
        shop.outbox.enqueue(message(), session=session)
        nested.rollback()
        shop.order(session)
        shop.outbox.enqueue(message(), session=session, key="2")
        session.commit()
    assert emails(shop) == (1, 1)


def test_a_driver_that_begins_nothing_is_begun_for_at_a_savepoint(shops: Shops) -> None:
    engine = sa.create_engine(shops.url, connect_args={"isolation_level": None})
    shop = shops.open_on(engine)
    with shop.session() as session:
        with session.begin_nested():
            shop.order(session)
            shop.outbox.enqueue(message(), session=session)
        session.rollback()
    assert emails(shop) == (0, 0)


@pytest.mark.matrix
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_asynchronous_session_commits_and_rolls_back_its_emails(
    shop: Shop, way: str, nested: bool
) -> None:
    """Over aiosqlite, by the session that `run_sync` gives."""

    async def write(end: str) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{shop.engine.url.database}")
        try:
            async with AsyncSession(engine) as session:
                if nested:
                    async with session.begin_nested():
                        await session.run_sync(lambda sync: WAYS[way](shop.outbox, sync))
                else:
                    await session.run_sync(lambda sync: WAYS[way](shop.outbox, sync))
                ended: Any = getattr(session, end)()
                await ended
        finally:
            await engine.dispose()

    asyncio.run(write("rollback"))
    assert emails(shop) == (0, 0)
    asyncio.run(write("commit"))
    assert emails(shop) == (0, 1)


def test_a_commit_that_failed_is_not_made_later_by_the_outbox(shops: Shops) -> None:
    """SQLite leaves the transaction open then, and SQLAlchemy puts it into the pool as ended."""
    shop = shops.open_on(sa.create_engine(shops.url, connect_args={"timeout": 0}))
    with shop.engine.connect() as reader, shop.session() as session:
        session.execute(sa.text("PRAGMA journal_mode = DELETE"))
        shop.order(session)
        shop.outbox.enqueue(message(), session=session)
        reader.exec_driver_sql("BEGIN")
        reader.execute(sa.select(shop.orders)).all()
        with pytest.raises(OperationalError, match="database is locked"):
            session.commit()
    for _ in range(3):  # one of them gets the session's connection from the pool
        shop.outbox.stats()
    assert emails(shop) == (0, 0)
