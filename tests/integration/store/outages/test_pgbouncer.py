"""Behind PgBouncer, where each transaction may run on another connection of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from outbox.worker.drain import drain
from tests.support.servers.databases.drivers import over
from tests.support.servers.databases.pgbouncer import PgBouncer
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.ports import LOOPBACK
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

MAILS, ALONE = 1000, 30
THREADS, SERVERS = 8, 4
PATIENCE = 100.0

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture(params=["transaction", "session"])
def pooled(request: pytest.FixtureRequest, postgres: Postgres, shops: Shops) -> Iterator[PgBouncer]:
    """The database of the test's shops by way of a pool. A session keeps its connection."""
    mode: Literal["transaction", "session"] = request.param
    with PgBouncer(
        postgres.port, mode, connections=SERVERS if mode == "transaction" else 60
    ) as server:
        shops.url = server.before(shops.url)
        yield server
        shops.close()


def write(shop: Shop) -> None:
    """Enqueue some emails in a transaction each, and the others in one."""
    for address in addresses(ALONE):
        with shop.session() as session:
            shop.outbox.enqueue(message(address), session=session)
            session.commit()
    with shop.session() as session:
        readers = addresses(MAILS)[ALONE:]
        shop.outbox.enqueue_many(newsletter(), readers, session=session, priority="normal")
        session.commit()


def prepared_statements(server: PgBouncer, shop: Shop) -> set[str]:
    """Return what was prepared of ours on the server's connections, each held by a transaction."""
    found: set[str] = set()
    with ExitStack() as held:
        for _ in range(SERVERS):
            session = held.enter_context(
                psycopg.connect(
                    port=server.port,
                    host=LOOPBACK,
                    user="postgres",
                    dbname=shop.engine.url.database,
                )
            )
            rows = session.execute("SELECT statement FROM pg_prepared_statements").fetchall()
            found.update(prepared for (prepared,) in rows if "outbox_" in prepared)
    return found


@pytest.mark.over_and_over
@pytest.mark.long
@pytest.mark.each_driver
def test_each_email_is_sent_once_by_several_workers_behind_a_pool(
    pooled: PgBouncer, shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"MAIL_PORT": catcher.port, "OUTBOX_BATCH": 40, "OUTBOX_SLOTS": THREADS}
    workers = [shops.open(**settings) for _ in range(2)]  # two processes' worth of engines
    write(workers[0])
    with ThreadPoolExecutor(THREADS) as pool:
        work = [pool.submit(drain, workers[n % 2].runtime) for n in range(THREADS)]
        for done in work:
            done.result(PATIENCE)
    shop = workers[0]
    email = shop.tables.email.c
    ends = select(email.status, email.attempts, email.crashes, email.unknown_count).distinct()
    found = [tuple(row) for row in shop.database.read(lambda c: c.execute(ends).all())]
    assert found == [("sent", 1, 0, 0)]
    assert set(catcher.copies().values()) == {1}
    assert len(catcher.copies()) == MAILS
    assert not caplog.records
    assert prepared_statements(pooled, shop) == set()


@pytest.mark.long
def test_an_asynchronous_session_over_asyncpg_enqueues_behind_a_pool(
    pooled: PgBouncer, shops: Shops
) -> None:
    """With the settings that SQLAlchemy's page on asyncpg names."""
    shop = shops.open()
    arguments = {
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__",
    }

    async def run() -> None:
        engine = create_async_engine(
            over(shops.url, "asyncpg"), poolclass=NullPool, connect_args=arguments
        )
        for address in addresses(ALONE):
            async with AsyncSession(engine) as session:
                await shop.outbox.enqueue_async(message(address), session=session, key=address)
                await session.commit()
        await engine.dispose()

    asyncio.run(run())
    assert shop.count(shop.tables.email) == ALONE


@pytest.mark.long
@pytest.mark.usual_driver
def test_an_asynchronous_session_over_psycopg_prepares_nothing_of_ours_behind_a_pool(
    pooled: PgBouncer, shops: Shops
) -> None:
    shop = shops.open()

    async def run() -> None:
        engine = create_async_engine(over(shops.url, "psycopg"))
        for address in addresses(ALONE):
            async with AsyncSession(engine) as session:
                await shop.outbox.enqueue_async(message(address), session=session, key=address)
                await session.commit()
        async with engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert driver is not None
            assert driver.prepare_threshold == 5, "the app's own setting stays"
        await engine.dispose()

    asyncio.run(run())
    assert shop.count(shop.tables.email) == ALONE
    assert prepared_statements(pooled, shop) == set()


def test_start_up_options_are_refused_and_the_roles_own_settings_hold(
    pooled: PgBouncer, shops: Shops
) -> None:
    """As docs/how-to/databases/postgresql-behind-a-proxy.md says."""
    with pytest.raises(OperationalError, match="unsupported startup parameter"):
        create_engine(shops.url, connect_args={"options": "-c statement_timeout=31s"}).connect()
    engine = create_engine(shops.url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE patient LOGIN")
        connection.exec_driver_sql("ALTER ROLE patient SET statement_timeout = '31s'")
    try:
        patient = create_engine(engine.url.set(username="patient"), poolclass=NullPool)
        with patient.connect() as connection:
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "31s"
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP ROLE patient")


@pytest.mark.usual_driver
def test_the_setting_of_the_apps_own_engine_stays_as_it_was(pooled: PgBouncer, shop: Shop) -> None:
    for address in addresses(3):
        shop.enqueue(address)
    with shop.engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.prepare_threshold == 5


@pytest.mark.long
@pytest.mark.usual_driver
def test_check_tells_an_app_whose_own_statements_are_prepared_behind_a_pool(
    pooled: PgBouncer, shops: Shops
) -> None:
    said = "a pool stands before PostgreSQL, and psycopg prepares the app's statements"
    settings = [{}, {"connect_args": {"prepare_threshold": None}}]
    engines = [create_engine(shops.url, **each) for each in settings]
    outputs = [runner(shops.open_on(engine))("check", code=1).output for engine in engines]
    assert [said in output for output in outputs] == [True, False]
    told = f"in {pooled.mode} mode: the outbox prepares no statements there"
    assert all(told in output for output in outputs)


@pytest.mark.long
@pytest.mark.usual_driver
def test_without_a_pool_statements_are_prepared(shop: Shop) -> None:
    """It saves the planning of each window, which is as long as its execution."""
    assert "PgBouncer" not in runner(shop)("check", code=1).output
    with shop.session() as session:
        for address in addresses(ALONE):
            shop.outbox.enqueue(message(address), session=session)
        listed = session.execute(text("SELECT statement FROM pg_prepared_statements")).scalars()
        assert any("INSERT INTO outbox_email" in statement for statement in listed)
        session.commit()
