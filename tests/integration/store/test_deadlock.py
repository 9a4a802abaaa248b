"""A deadlock rolls back the whole transaction on MariaDB, also where a savepoint is open."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.store.transitions.window import finish
from tests.integration.store.locks import PATIENCE
from tests.support.shop.shop import WORKER, Shop, addresses, sent

pytestmark = pytest.mark.databases("mariadb")

SENT, PENDING = Status.SENT, Status.PENDING


@contextmanager
def touching_orders(shop: Shop, email_id: int) -> Iterator[None]:
    """Have the app touch an order of its own when this email is given back."""
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER touching BEFORE UPDATE ON outbox_email FOR EACH ROW BEGIN"
            f" IF OLD.id = {email_id} AND NEW.status = 'pending' THEN"
            " UPDATE orders SET customer = CONCAT(customer, '!') WHERE id = 1; END IF; END"
        )
    yield
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER touching")


def test_the_results_before_it_are_written_again(shop: Shop) -> None:
    ids = [shop.enqueue(address).id for address in addresses(4)]
    made = shop.started()
    shop.open(made.token, ids[0])
    email, met = shop.tables.email, list[Future[None]]()
    heavy = [{"id": number, "customer": f"c{number}"} for number in range(1, 200)]
    orders = shop.tables.email.metadata.tables["orders"]
    with (
        touching_orders(shop, ids[2]),
        ThreadPoolExecutor(1) as pool,
        shop.engine.connect() as other,
    ):
        other.execute(sa.insert(orders), heavy)  # so the database ends our transaction

        def ask() -> None:
            other.execute(sa.update(email).where(email.c.id == ids[0]).values(priority=1))
            other.rollback()

        @sa.event.listens_for(shop.engine, "savepoint")
        def note(connection: sa.Connection, name: str) -> None:
            if not met:  # our transaction holds the row of the result
                met.append(pool.submit(ask))

        finish(shop.database, made.token, [sent(ids[0])], worker=WORKER)
        met[0].result(PATIENCE)
    assert [shop.status(i) for i in ids] == [SENT, PENDING, PENDING, PENDING]
    assert shop.count(shop.tables.lease) == 0
