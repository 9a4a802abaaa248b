"""An engine that commits each statement by itself keeps no promise: it is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox
from outbox.flask_ext.session.autocommit import autocommit_errors
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message, newsletter

pytestmark = pytest.mark.each_database

DRIVERS: dict[str, list[dict[str, Any]]] = {
    "postgresql": [{"autocommit": True}],
    "mariadb": [{"autocommit": True}, {"autocommit": None, "init_command": "SET autocommit = 1"}],
    "sqlite": [{"isolation_level": None}],
}
"""The drivers' own settings, of which SQLAlchemy knows nothing."""

USES: dict[str, Callable[[Outbox, Session], object]] = {
    "enqueue": lambda outbox, session: outbox.enqueue(message(), session=session),
    "keyed": lambda outbox, session: outbox.enqueue(message(), session=session, key="1"),
    "enqueue_many": lambda outbox, session: outbox.enqueue_many(
        newsletter(), ["a@x.example"], session=session
    ),
    "cancel": lambda outbox, session: outbox.cancel(tag="order-1", session=session),
}


def refuses(shop: Shop, session: Session, use: str = "enqueue") -> None:
    """Hold that the call is refused, and has written nothing."""
    with session, pytest.raises(ConfigurationError, match="autocommit"):
        USES[use](shop.outbox, session)
    tables = shop.tables
    assert [shop.count(table) for table in (tables.email, tables.content)] == [0, 0]


def told(shop: Shop) -> bool:
    """Return whether `flask outbox check` tells of the engine, as an error."""
    line = "error  the session's connection is in autocommit: each statement commits at once"
    return line in runner(shop)("check", code=1).output


@pytest.mark.long
def test_check_tells_of_an_autocommit_engine(shops: Shops) -> None:
    engine = sa.create_engine(shops.url, isolation_level="AUTOCOMMIT")
    assert told(shops.open_on(engine))
    assert not told(shops.open_on(sa.create_engine(shops.url)))


@pytest.mark.long
def test_check_tells_of_the_engine_of_the_sessions(shop: Shop) -> None:
    """The outbox's own engine is well, and the app's sessions use a copy of it."""
    app, metadata = Flask("shop"), sa.MetaData()
    session = scoped_session(
        sessionmaker(shop.engine.execution_options(isolation_level="AUTOCOMMIT"))
    )
    Outbox().init_app(app, session=session, metadata=metadata, engine=shop.engine)
    output = app.test_cli_runner().invoke(args=["outbox", "check"]).output
    assert "error  the session's connection is in autocommit" in output
    assert not session.registry.has()


@pytest.mark.databases("postgresql")
def test_a_database_that_takes_no_connection_is_not_in_autocommit() -> None:
    """Other lines of `check` tell of it."""
    away = sa.create_engine("postgresql+psycopg://127.0.0.1:1/shop")
    assert autocommit_errors(away, None, sa.insert(sa.table("outbox_email"))) == []


@pytest.mark.parametrize("use", USES)
def test_an_autocommit_engine_is_refused(shop: Shop, use: str) -> None:
    engine = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    refuses(shop, Session(engine), use)


def test_a_connection_that_was_put_in_autocommit_is_refused(shop: Shop) -> None:
    session = Session(shop.engine)
    session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    refuses(shop, session)


@pytest.mark.long
def test_an_engine_whose_driver_commits_by_itself_is_refused(shops: Shops) -> None:
    dialect = sa.make_url(shops.url).get_backend_name()
    for arguments in DRIVERS[dialect]:
        shop = shops.open_on(sa.create_engine(shops.url, connect_args=arguments))
        refuses(shop, Session(shop.engine))
        assert told(shop)


def test_the_refusal_leaves_the_session_usable(shop: Shop) -> None:
    """An autocommit session may still write its own rows; its emails go over another one."""
    with Session(shop.engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
        with pytest.raises(ConfigurationError):
            shop.outbox.enqueue(message(), session=session)
        shop.order(session)
    assert shop.count(shop.orders) == 1
    shop.enqueue()
    assert shop.count(shop.tables.email) == 1


@pytest.mark.databases("sqlite")
def test_sqlite_whose_transactions_a_listener_begins_is_not_in_autocommit(shops: Shops) -> None:
    """SQLAlchemy's own recipe: the driver begins nothing, and a listener does."""
    engine = sa.create_engine(shops.url, connect_args={"isolation_level": None})
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    shop = shops.open_on(engine)
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        session.rollback()
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 1
    assert not told(shop)
