"""An asynchronous driver tells whether its session has only read, as the others do."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from outbox.flask_ext.session.reading import holds_nothing
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("mariadb")

ASYNC = {"sqlite": ("aiosqlite",), "postgresql": ("asyncpg", "psycopg"), "mariadb": ("asyncmy",)}


def test_it_tells_of_reads_and_of_what_its_own_cursor_wrote(shop: Shop) -> None:
    name = shop.engine.dialect.name

    def told(session: Session) -> list[bool]:
        session.execute(sa.select(shop.orders)).all()
        first = holds_nothing(session)
        with closing(session.connection().connection.cursor()) as cursor:
            cursor.execute("INSERT INTO orders (customer) VALUES ('Ada')")
        return [first, holds_nothing(session)]

    async def run(driver: str) -> list[bool]:
        url = shop.engine.url.set(drivername=f"{name}+{driver}")
        url = url.difference_update_query(["ssl_disabled"])  # PyMySQL's own
        engine = create_async_engine(url, poolclass=NullPool)
        try:
            async with AsyncSession(engine) as session:
                return await session.run_sync(told)
        finally:
            await engine.dispose()

    for driver in ASYNC[name]:
        assert asyncio.run(run(driver)) == [True, False]
