"""A statement failed, and nothing is missing that the session wrote: its commit passes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.integration.atomic.undone.undoing import PATIENCE, REFUSED, place, rename, stand
from tests.support.servers.databases.drivers import over
from tests.support.shop.shop import Shop, Shops


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("twophase", [False, True])
def test_another_database_was_only_read(twophase: bool, shop: Shop, elsewhere: str) -> None:
    """In two phases the second one would fail there, behind the commit of the order."""
    other = sa.create_engine(elsewhere)
    with Session(shop.engine, twophase=twophase) as session:
        place(shop, session)
        with pytest.raises(DBAPIError):
            session.execute(sa.text("SELECT 1/0"), bind_arguments={"bind": other})
        if twophase:
            with pytest.raises(SQLAlchemyError, match=REFUSED):
                session.commit()
        else:
            session.commit()
    other.dispose()
    stand(shop, 0 if twophase else 1)


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("times", [1, 2])
def test_a_first_statement_that_undid_nothing_was_repeated(times: int, shop: Shop) -> None:
    with shop.session() as session, shop.session() as other:
        other.execute(sa.insert(shop.orders).values(id=7, customer="0"))
        other.commit()
        session.execute(sa.text("SET SESSION innodb_snapshot_isolation = ON"))
        for time in range(times):
            session.execute(sa.select(shop.orders)).all()
            newer = sa.update(shop.orders).where(shop.orders.c.id == 7).values(customer=f"{time}x")
            other.execute(newer)
            other.commit()
            with pytest.raises(DBAPIError, match="1020"):
                rename(shop, session, 7)
        rename(shop, session, 7)
        place(shop, session)
        session.commit()
        session.execute(sa.text("SET SESSION innodb_snapshot_isolation = OFF"))
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (2, 1)


@pytest.mark.databases("postgresql")
def test_the_database_is_asked_once_after_an_error_that_a_savepoint_took_back(shops: Shops) -> None:
    """Over asyncpg, whose driver does not tell. An import may release thousands of savepoints."""
    shop, asked = shops.open(), list[str]()

    async def run() -> None:
        engine = create_async_engine(over(shops.url, "asyncpg"), poolclass=NullPool)
        sa.event.listen(
            engine.sync_engine,
            "before_cursor_execute",
            lambda *a: asked.append(a[2]) if a[2] == "SELECT 1" else None,
        )
        async with AsyncSession(engine) as session:
            await session.run_sync(lambda sync: place(shop, sync))
            for statement in ("SELECT 1/0", "SELECT 2", "SELECT 3"):
                with suppress(DBAPIError):
                    async with session.begin_nested():
                        await session.execute(sa.text(statement))
            await session.commit()
        await engine.dispose()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert asked == ["SELECT 1"]
    stand(shop, 1)
