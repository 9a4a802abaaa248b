"""What the database refuses for a reason of its own is told as that, and not as a key's contention.

Who is told of contention repeats the transaction: without end, where the refusal is for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from outbox.store.connection.error_codes import is_lock_timeout
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, message, newsletter

BARRED = "barred@x.example"
CODES = {"sqlite": "", "postgresql": "23514", "mariadb": "1452"}
"""A CHECK's on PostgreSQL, a foreign key's on MariaDB: IntegrityErrors, as a key's are."""

ENQUEUES: dict[str, Callable[..., Any]] = {
    "one": lambda shop, session, **key: shop.outbox.enqueue(
        message(BARRED), session=session, **key
    ),
    "shared": lambda shop, session, **key: shop.outbox.enqueue_many(
        newsletter(), [BARRED], session=session, **key
    ),
    "different": lambda shop, session, **key: shop.outbox.enqueue_many(
        [message(BARRED)], session=session, **key
    ),
}


def enqueue(shop: Shop, session: Session, name: str, *, has_key: bool) -> None:
    key: object = "order-1" if name == "one" else lambda _: "order-1"
    ENQUEUES[name](shop, session, **({"key": key} if has_key else {}))


@pytest.mark.matrix
@pytest.mark.each_database
@pytest.mark.parametrize("has_key", [False, True], ids=["without a key", "with a key"])
@pytest.mark.parametrize("name", ENQUEUES)
def test_a_trigger_of_the_apps_refuses_an_email_for_itself(
    shop: Shop, name: str, has_key: bool
) -> None:
    code = CODES[shop.engine.dialect.name]
    barred = f"NEW.recipient = '{BARRED}'"
    with (
        refusing(shop.engine, "outbox_email", barred, event="INSERT", code=code),
        shop.session() as session,
        pytest.raises(IntegrityError),
    ):
        enqueue(shop, session, name, has_key=has_key)
    assert shop.count(shop.tables.email) == 0


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("name", ENQUEUES)
def test_without_a_key_a_wait_for_others_is_no_contention(shop: Shop, name: str) -> None:
    with shop.session() as person, shop.session() as session:
        person.execute(text("SELECT id FROM outbox_email WHERE id > 1000000 FOR UPDATE")).all()
        session.execute(text("SET SESSION innodb_lock_wait_timeout = 1"))
        with pytest.raises(DBAPIError) as caught:
            enqueue(shop, session, name, has_key=False)
        assert is_lock_timeout(caught.value)
