"""What MariaDB reads for a look does not grow with the emails that have ended.

Its indexes have no predicates: the emails that have ended stand in them before those that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import select, update

from outbox import Priority, Status
from outbox.flask_ext.management.figures import overview
from outbox.store.queries import encryption_keys
from outbox.store.scrape import scrape
from tests.support.shop.many import Reading, finish
from tests.support.shop.shop import Shop, addresses, newsletter

pytestmark = pytest.mark.databases("mariadb")

ENDED, WAITING = 4000, 20


@pytest.fixture
def shop_with_ended(shop: Shop) -> Shop:
    """A shop whose newsletter has 4,000 emails that have ended, and 20 of its lane that wait."""
    finish(shop.engine, 1, ENDED)
    email = shop.tables.email
    with shop.session() as session:
        session.execute(update(email).values(priority=int(Priority.BULK), tag="news"))
        shop.outbox.enqueue_many(newsletter(), addresses(WAITING), session=session, tag="more")
        session.commit()
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE TABLE outbox_email").all()
        priorities = connection.execute(select(email.c.priority).distinct()).scalars().all()
    assert priorities == [int(Priority.BULK)]
    return shop


def rows_read(shop: Shop, look: Callable[[], object]) -> int:
    look()  # it opens the connection
    return sum(Reading(shop.engine).of(look).values())


def test_what_waits_is_counted_and_found_without_what_has_ended(shop_with_ended: Shop) -> None:
    shop, database = shop_with_ended, shop_with_ended.database
    most = ENDED // 4
    assert database.read(lambda c: scrape(c, database)).emails["due"] == WAITING
    assert rows_read(shop, lambda: database.read(lambda c: scrape(c, database))) < most
    assert overview(shop.runtime).backlog.due == WAITING
    assert rows_read(shop, lambda: overview(shop.runtime)) < most
    needed = partial(database.read, lambda c: encryption_keys.needed(c, database))
    assert rows_read(shop, needed) < 5 * encryption_keys.LOOKED_AT
    found = shop.outbox.list(status=Status.PENDING, limit=2 * WAITING).emails
    assert len(found) == WAITING
    assert rows_read(shop, lambda: shop.outbox.list(status=Status.PENDING)) < most
