"""Emails written over asyncpg, by the session that an AsyncSession's `run_sync` gives."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from outbox import Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.databases("postgresql")


def write(shop: Shop, session: Session) -> None:
    outbox = shop.outbox
    outbox.enqueue(message(), session=session)
    outbox.enqueue(message("b@x.example", "c@x.example"), session=session, key="1")
    outbox.enqueue_many(newsletter(), addresses(2), session=session)
    outbox.enqueue_many([message("d@x.example"), message("e@x.example")], session=session)
    outbox.enqueue(message("f@x.example"), session=session, tag="withdrawn")
    assert outbox.cancel(tag="withdrawn", session=session) == 1


@pytest.mark.long
def test_every_way_of_writing_works_over_asyncpg(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    url = make_url(shops.url).set(drivername="postgresql+asyncpg")

    async def run() -> None:
        engine = create_async_engine(url)
        try:
            async with AsyncSession(engine) as session:
                await session.run_sync(lambda sync: write(shop, sync))
                await session.rollback()
                await session.run_sync(lambda sync: write(shop, sync))
                await session.commit()
        finally:
            await engine.dispose()

    asyncio.run(run())
    drain(shop.runtime)
    assert len(catcher.emails) == 6
    assert shop.outbox.counts() == {Status.SENT: 6, Status.CANCELLED: 1}
