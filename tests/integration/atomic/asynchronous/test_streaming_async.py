"""A stream of an AsyncSession on MariaDB, while emails are written over its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from tests.support.shop.shop import Shop, message, newsletter

pytestmark = [
    pytest.mark.over_and_over,
    pytest.mark.databases("mariadb"),
    pytest.mark.usefixtures("small_chunks"),
]

READERS = 250
READ = 7
"""How many rows the stream holds at a time: by far not all."""


@pytest.fixture
def readers(shop: Shop) -> set[str]:
    """The addresses of so many customers, each of whom is to have an email."""
    everybody = [f"r{number:05}@readers.example" for number in range(READERS)]
    with shop.engine.begin() as connection:
        rows = [{"customer": address} for address in everybody]
        connection.execute(sa.insert(shop.orders), rows)
    return set(everybody)


def select(shop: Shop) -> sa.Select[Any]:
    statement = sa.select(shop.orders.c.customer).order_by(shop.orders.c.id)
    return statement.execution_options(yield_per=READ)


def in_async_session(shop: Shop, body: Callable[[AsyncSession], Awaitable[None]]) -> None:
    """Run the body in one transaction over asyncmy, and commit it."""
    url = shop.engine.url.set(drivername="mariadb+asyncmy")
    url = url.difference_update_query(["ssl_disabled"])  # PyMySQL's own

    async def run() -> None:
        engine = create_async_engine(url)
        try:
            async with AsyncSession(engine) as session:
                # The first call over another engine than the outbox's asks where it leads.
                await session.run_sync(lambda sync: shop.outbox.cancel(id=1, session=sync))
                await body(session)
                await session.commit()
        finally:
            await engine.dispose()

    asyncio.run(run())


def committed(shop: Shop) -> set[str]:
    return {row.recipient for row in shop.rows(shop.tables.email)}


WAYS: dict[str, Callable[[Shop, Session, Iterator[str]], int]] = {
    "shared": lambda shop, session, found: shop.outbox.enqueue_many(
        newsletter(), found, session=session
    ),
    "fields": lambda shop, session, found: shop.outbox.enqueue_many(
        newsletter("Dear {{ name }}"), found, session=session, fields=lambda to: {"name": to}
    ),
    "messages": lambda shop, session, found: shop.outbox.enqueue_many(
        map(message, found), session=session
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_newsletter_to_a_stream_of_the_same_session_goes_to_all(
    shop: Shop, readers: set[str], way: str
) -> None:
    async def body(session: AsyncSession) -> None:
        def write(sync: Session) -> int:
            return WAYS[way](shop, sync, iter(sync.execute(select(shop)).scalars()))

        assert await session.run_sync(write) == READERS

    in_async_session(shop, body)
    assert committed(shop) == readers


def test_within_a_stream_an_enqueue_is_refused_and_the_stream_goes_on(
    shop: Shop, readers: set[str]
) -> None:
    seen = list[str]()

    async def body(session: AsyncSession) -> None:
        def write(sync: Session) -> None:
            shop.outbox.enqueue(message(), session=sync)

        async for address in await session.stream_scalars(select(shop)):
            seen.append(address)
            if len(seen) == 1:
                with pytest.raises(ConfigurationError, match="unread"):
                    await session.run_sync(write)
        await session.run_sync(write)  # it is usable

    in_async_session(shop, body)
    assert set(seen) == readers
    assert committed(shop) == {"a@customers.example"}
