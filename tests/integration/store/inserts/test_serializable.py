"""A serialization failure of PostgreSQL within an enqueue with a key is told as what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from outbox.store.connection.error_codes import code_of
from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = [pytest.mark.databases("postgresql"), pytest.mark.each_driver]

ENQUEUES: dict[str, Callable[[Shop, Session, str], Any]] = {
    "one": lambda shop, session, key: shop.outbox.enqueue(message(), session=session, key=key),
    "shared": lambda shop, session, key: shop.outbox.enqueue_many(
        newsletter(), addresses(1), session=session, key=lambda _: key
    ),
    "different": lambda shop, session, key: shop.outbox.enqueue_many(
        [message()], session=session, key=lambda _: key
    ),
}


def serializable(shop: Shop) -> Session:
    return Session(shop.engine.execution_options(isolation_level="SERIALIZABLE"))


@pytest.mark.parametrize("name", ENQUEUES)
def test_an_apps_loop_for_serialization_failures_repeats_an_enqueue_with_a_key(
    shop: Shop, name: str
) -> None:
    """No two transactions share a key, so no key is held: PostgreSQL finds no order for them."""
    codes: list[object] = []
    for number in range(2):
        with serializable(shop) as session:
            session.execute(select(shop.orders)).all()
            if not number:
                with serializable(shop) as rival:
                    shop.order(rival, "Bob")
                    ENQUEUES[name](shop, rival, "order-2")
                    rival.commit()
            try:
                ENQUEUES[name](shop, session, "order-1")
                shop.order(session, "Ada")
                session.commit()
            except DBAPIError as error:
                codes.append(code_of(error))
    assert codes == ["40001"]
    assert [row.customer for row in shop.rows(shop.orders)] == ["Bob", "Ada"]
    assert sorted(row.key for row in shop.rows(shop.tables.email)) == ["order-1", "order-2"]
