"""Which errors undo the whole transaction on MariaDB, beside a deadlock."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tests.integration.atomic.undone.undoing import place, refused, rename, stand
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("mariadb")


def test_a_row_that_changed_since_the_snapshot_undoes_all(shop: Shop) -> None:
    with shop.session() as session, shop.session() as other:
        other.execute(sa.insert(shop.orders).values(id=7, customer="Bob"))
        other.commit()
        session.execute(sa.text("SET SESSION innodb_snapshot_isolation = ON"))
        place(shop, session)
        session.execute(sa.select(shop.orders)).all()
        rename(shop, other, 7)
        other.commit()
        with pytest.raises(DBAPIError):
            rename(shop, session, 7)
        refused(session)
        session.execute(sa.text("SET SESSION innodb_snapshot_isolation = OFF"))
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)


def test_a_lock_that_does_not_come_undoes_its_statement_only(shop: Shop) -> None:
    with shop.session() as session, shop.session() as other:
        wait_in_vain(shop, session, other)
        session.commit()
    stand(shop, 1)


@pytest.mark.long
def test_by_a_setting_of_the_server_it_undoes_all(shops: Shops) -> None:
    with MariaDB(durable=False, options=("--innodb-rollback-on-timeout=ON",)) as server:
        shop = shops.open_on(sa.create_engine(server.new_database()))
        with shop.session() as session, shop.session() as other:
            wait_in_vain(shop, session, other)
            refused(session)
        stand(shop, 0)
        shop.engine.dispose()


def wait_in_vain(shop: Shop, session: Session, other: Session) -> None:
    """Have the session place an order, and wait for a row that another one has."""
    other.execute(sa.insert(shop.orders).values(id=7, customer="Bob"))
    place(shop, session)
    session.execute(sa.text("SET SESSION innodb_lock_wait_timeout = 0"))
    with pytest.raises(DBAPIError, match="1205"):
        rename(shop, session, 7)
    other.rollback()
    session.execute(sa.text("SET SESSION innodb_lock_wait_timeout = DEFAULT"))
