"""An app's listener on its pool may leave a transaction open: its settings hold, and emails leave.

What a commit of the app's leaves open is another thing: the outbox commits none of it.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from outbox.store.connection.database import Database
from outbox.store.connection.lone_engine import lone_engine
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.each_driver]

ZONE = "Asia/Kathmandu"


def listening(shops: Shops, name: str, statement: str, **config: Any) -> Shop:
    """Open a shop whose pool runs a statement at each event of this name."""
    engine = sa.create_engine(shops.url)

    def execute(driver: Any, *_: object) -> None:
        with closing(driver.cursor()) as cursor, suppress(engine.dialect.loaded_dbapi.DataError):
            cursor.execute(statement)

    event.listen(engine, name, execute)
    return shops.open_on(engine, **config)


def zone(connection: sa.Connection) -> Any:
    return connection.exec_driver_sql("SHOW TIME ZONE").scalar()


@pytest.mark.long
@pytest.mark.parametrize("name", ["connect", "checkout"])
def test_what_a_listener_has_set_holds_for_the_outbox_and_for_the_app(
    shops: Shops, catcher: Catcher, name: str
) -> None:
    shop = listening(shops, name, f"SET TIME ZONE '{ZONE}'", MAIL_PORT=catcher.port)
    shop.enqueue()
    shop.engine.dispose()
    drain(shop.runtime)
    assert len(catcher.emails) == 1
    alone = Database(lone_engine(shop.engine), shop.tables)
    for database in (shop.database, alone):
        assert [database.read(zone), database.run(zone)] == [ZONE, ZONE]
    alone.engine.dispose()
    with shop.session() as session:
        assert zone(session.connection()) == ZONE
    assert "the schema is complete" in runner(shop)("check", code=1).output


@pytest.mark.long
def test_a_listener_whose_statement_has_failed_stops_no_email(
    shops: Shops, catcher: Catcher
) -> None:
    shop = listening(shops, "connect", "SELECT 1 / 0", MAIL_PORT=catcher.port)
    shop.engine.dispose()
    drain(shop.runtime)
    shop.enqueue()
    drain(shop.runtime)
    assert len(catcher.emails) == 1


def test_a_commit_that_a_listener_refused_is_not_made_later_by_the_outbox(shops: Shops) -> None:
    """A session takes the transaction for ended then, and so does the pool."""
    shop, url = shops.open_on(sa.create_engine(shops.url)), shops.url

    def refuse(_: object) -> NoReturn:
        raise LookupError

    with shop.session() as session:
        shop.order(session)
        shop.outbox.enqueue(message(), session=session)
        event.listen(shop.engine, "commit", refuse)
        with pytest.raises(LookupError):
            session.commit()
    event.remove(shop.engine, "commit", refuse)
    assert open_transactions(url) == 1
    shop.outbox.stats()
    shop.outbox.pause()
    assert open_transactions(url) == 0
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (0, 0)


def open_transactions(url: str) -> int:
    """Return how many connections are idle in a transaction."""
    other = sa.create_engine(url)
    with other.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'idle in transaction' AND pid <> pg_backend_pid()"
        ).scalar_one()
    other.dispose()
    return int(found)
