"""Statements with whose error a database undoes the whole transaction, and what comes of that."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.orm import Session

from outbox import ConfigurationError
from tests.support.shop.shop import Shop, message

PATIENCE = 30.0
REFUSED = "roll the session back"
Act = Callable[[Shop, Session], object]


def fail(shop: Shop, session: Session) -> None:
    """Have the database undo the transaction, and swallow the error."""
    with pytest.raises(DBAPIError):
        FAILURES[session.get_bind().dialect.name](shop, session)


def divide_by_zero(_: Shop, session: Session) -> None:
    session.execute(sa.text("SELECT 1/0"))


def conflict(shop: Shop, session: Session) -> None:
    insert = sa.insert(shop.orders).prefix_with("OR ROLLBACK").values(id=7, customer="Bob")
    session.execute(insert)
    session.execute(insert)


def deadlock(shop: Shop, session: Session) -> None:
    """Wait for somebody who waits for this transaction, and who has written more."""
    with ThreadPoolExecutor(1) as pool, shop.engine.connect() as other:
        rows = [{"id": number, "customer": f"c{number}"} for number in range(100, 300)]
        other.execute(sa.insert(shop.orders), rows)
        session.execute(sa.insert(shop.orders).values(id=7, customer="Bob"))
        asking = pool.submit(rename, shop, other, 7)
        try:
            rename(shop, session, 100)
        finally:
            asking.result(PATIENCE)
            other.rollback()


def rename(shop: Shop, through: Session | sa.Connection, number: int) -> None:
    orders = shop.orders
    through.execute(sa.update(orders).where(orders.c.id == number).values(customer="Eve"))


FAILURES: dict[str, Act] = {
    "postgresql": divide_by_zero,
    "sqlite": conflict,
    "mysql": deadlock,
    "mariadb": deadlock,
}


def place(shop: Shop, session: Session) -> None:
    shop.order(session)
    shop.outbox.enqueue(message(), session=session)


def refused(session: Session) -> None:
    """The commit is refused, and so is the next one; a rollback makes the session usable."""
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=REFUSED) as raised:
            session.commit()
        assert isinstance(raised.value, PendingRollbackError)
    session.rollback()


def stand(shop: Shop, number: int) -> None:
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (number, number)
