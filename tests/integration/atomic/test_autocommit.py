"""An engine that commits each statement by itself keeps no promise: it is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import ConfigurationError, Outbox
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


@pytest.mark.parametrize("use", USES)
def test_an_autocommit_engine_is_refused(shop: Shop, use: str) -> None:
    engine = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    refuses(shop, Session(engine), use)


def test_a_connection_that_was_put_in_autocommit_is_refused(shop: Shop) -> None:
    session = Session(shop.engine)
    session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    refuses(shop, session)


def test_an_engine_whose_driver_commits_by_itself_is_refused(shops: Shops) -> None:
    dialect = sa.make_url(shops.url).get_backend_name()
    for arguments in DRIVERS[dialect]:
        shop = shops.open_on(sa.create_engine(shops.url, connect_args=arguments))
        refuses(shop, Session(shop.engine))


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
