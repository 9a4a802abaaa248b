"""Tables in a schema with a name of its own, or moved there by a `schema_translate_map`.

Enqueue and workers must mean the same tables: an email in a schema where no worker looks is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox, Status
from outbox.domain.config.retention import Retention
from outbox.flask_ext.app.state import state_of
from outbox.flask_ext.management.checks.database import database_findings
from outbox.store.retention.purge import purge
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop import schema
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = [pytest.mark.each_database, pytest.mark.matrix]

NAMES = ["my-app", "Mail", "select", 'odd "name"']
DAY = 86_400.0


@pytest.fixture(params=NAMES)
def elsewhere_schema(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> Iterator[tuple[sa.Engine, str]]:
    """An engine, and a schema beside its default one: on MariaDB that is another database."""
    engine = sa.create_engine(database_url)
    name = str(request.param)
    quote = engine.dialect.identifier_preparer.quote_identifier
    if engine.dialect.name == "sqlite":
        attach = f"ATTACH DATABASE '{tmp_path / 'attached'}' AS {quote(name)}"
        sa.event.listen(engine, "connect", lambda driver, _: driver.execute(attach))
    elif engine.dialect.name in ("mysql", "mariadb"):
        name = f"{name} {sa.make_url(database_url).database}"[:60]
        _run(engine, f"CREATE DATABASE {quote(name)}")
    else:
        _run(engine, f"CREATE SCHEMA {quote(name)}")
    yield engine, name
    if engine.dialect.name in ("mysql", "mariadb"):
        _run(engine, f"DROP DATABASE {quote(name)}")
    engine.dispose()


def _run(engine: sa.Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)


def opened(engine: sa.Engine, metadata: sa.MetaData, catcher: Catcher) -> tuple[Flask, Outbox]:
    app, outbox = Flask("shop"), Outbox()
    app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=catcher.port, OUTBOX_RATE="1000000/s")
    source = scoped_session(sessionmaker(engine))
    outbox.init_app(app, session=source, metadata=metadata, engine=engine)
    return app, outbox


def goes_all_the_way(app: Flask, outbox: Outbox, engine: sa.Engine, catcher: Catcher) -> None:
    """Write in every way, withdraw, send, purge and look: each is a statement of its own."""
    runtime = state_of(app).runtime
    with app.app_context():
        assert not [f for f in database_findings(runtime) if f.level == "error"]
    with Session(engine) as session:
        outbox.enqueue(message(), session=session)
        outbox.enqueue(message("b@x.example", "c@x.example"), session=session)
        outbox.enqueue(message("d@x.example"), session=session, key="order-1")
        outbox.enqueue(message("e@x.example", text="." * 70_000), session=session)
        outbox.enqueue_many(newsletter(), addresses(3), session=session)
        outbox.enqueue_many([message("f@x.example"), message("g@x.example")], session=session)
        outbox.enqueue(message("h@x.example"), session=session, tag="withdrawn")
        outbox.enqueue(message("h@x.example", "i@x.example"), session=session, tag="withdrawn")
        assert outbox.cancel(tag="withdrawn", session=session) == 2
        session.commit()
    drain(runtime)
    assert len(catcher.emails) == 9
    assert outbox.counts() == {Status.SENT: 9, Status.CANCELLED: 2}
    runtime.database.offset += 2 * DAY
    assert sum(c.emails for c in purge(runtime.database, Retention.of_all(DAY))) == 11
    runtime.disconnect()


@pytest.mark.long
def test_tables_in_a_schema_with_any_name_are_found_by_every_statement(
    elsewhere_schema: tuple[sa.Engine, str], catcher: Catcher
) -> None:
    engine, name = elsewhere_schema
    metadata = sa.MetaData(schema=name)
    app, outbox = opened(engine, metadata, catcher)
    metadata.create_all(engine)
    goes_all_the_way(app, outbox, engine, catcher)


@pytest.mark.long
def test_an_engine_that_moves_the_tables_moves_them_for_every_statement(
    elsewhere_schema: tuple[sa.Engine, str], catcher: Catcher
) -> None:
    engine, name = elsewhere_schema
    moved = engine.execution_options(schema_translate_map={None: name})
    metadata = sa.MetaData()
    app, outbox = opened(moved, metadata, catcher)
    metadata.create_all(moved)
    goes_all_the_way(app, outbox, moved, catcher)
    assert not sa.inspect(engine).has_table("outbox_email")


def test_check_looks_where_the_engine_moves_the_tables(
    elsewhere_schema: tuple[sa.Engine, str], catcher: Catcher
) -> None:
    """Given tables in the default schema, when the engine leads elsewhere, they are missing."""
    engine, name = elsewhere_schema
    metadata = sa.MetaData()
    moved = engine.execution_options(schema_translate_map={None: name})
    app, _ = opened(moved, metadata, catcher)
    metadata.create_all(engine)
    with app.app_context():
        findings = database_findings(state_of(app).runtime)
    assert [f.level for f in findings] == ["error"]
    assert "missing" in findings[0].text
    state_of(app).runtime.disconnect()


TENANT: dict[str | None, str] = {None: "tenant"}


@pytest.mark.parametrize("way", ["engine", "connection"])
@pytest.mark.parametrize("key", [None, "order-1"])
def test_a_session_that_moves_the_tables_away_from_the_workers_is_refused(
    shop: Shop, way: str, key: str | None
) -> None:
    if way == "engine":
        session = Session(shop.engine.execution_options(schema_translate_map=TENANT))
    else:
        session = Session(shop.engine)
        session.connection(execution_options={"schema_translate_map": TENANT})
    with session:
        with pytest.raises(ConfigurationError, match=r"schema_translate_map.*tenant"):
            shop.outbox.enqueue(message(), session=session, key=key)
        with pytest.raises(ConfigurationError, match="schema_translate_map"):
            shop.outbox.cancel(id=1, session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 0


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("moves", [{"orders": "tenant"}, {None: "public"}, {None: None}])
def test_a_session_that_moves_other_tables_only_is_taken(shops: Shops, moves: Any) -> None:
    shop = shops.open_on(sa.create_engine(shops.url))  # maps with and without None share no cache
    with Session(shop.engine.execution_options(schema_translate_map=moves)) as session:
        shop.outbox.enqueue(message(), session=session)
        shop.outbox.enqueue(message("a@x.example", "b@x.example"), session=session, key="1")
        session.commit()
    assert shop.count(shop.tables.email) == 2


def test_orders_of_tenants_commit_beside_emails_in_a_schema_that_no_map_names(
    elsewhere_schema: tuple[sa.Engine, str], catcher: Catcher
) -> None:
    """The way for tenants: the outbox has a metadata of its own, with a schema of its own."""
    engine, name = elsewhere_schema
    orders = schema.orders(sa.MetaData())
    metadata = sa.MetaData(
        schema={"postgresql": "public", "sqlite": "main"}.get(
            engine.dialect.name, sa.make_url(engine.url).database
        )
    )
    app, outbox = opened(engine, metadata, catcher)
    metadata.create_all(engine)
    tenant = engine.execution_options(schema_translate_map={None: name})
    orders.create(tenant)
    with Session(tenant) as session:
        session.execute(sa.insert(orders).values(customer="Ada"))
        outbox.enqueue(message(), session=session)
        session.commit()
    drain(state_of(app).runtime)
    assert len(catcher.emails) == 1
    with tenant.connect() as connection:
        assert connection.execute(sa.select(orders.c.customer)).scalars().all() == ["Ada"]
    state_of(app).runtime.disconnect()


def test_tenants_share_keys_and_tags_so_these_name_the_tenant(
    elsewhere_schema: tuple[sa.Engine, str], shop: Shop
) -> None:
    """The orders of each are in a schema of its own, and the emails of all are in one."""
    moved = {"orders": elsewhere_schema[1]}
    tenants = {
        "acme": Session(shop.engine),
        "globex": Session(shop.engine.execution_options(schema_translate_map=moved)),
    }

    def place(tenant: str, name: str) -> bool:
        with tenants[tenant] as session:
            email = shop.outbox.enqueue(message(), session=session, key=name, tag=name)
            session.commit()
        return email.created

    def withdraw(tenant: str, **which: Any) -> int:
        with tenants[tenant] as session:
            return shop.outbox.cancel(session=session, **which)

    assert [place(tenant, "order-1") for tenant in tenants] == [True, False]
    assert withdraw("globex", key="order-1") == withdraw("globex", tag="order-1") == 1
    assert all(place(tenant, f"{tenant}-order-1") for tenant in tenants)
    assert withdraw("globex", tag="globex-order-1") == 1
