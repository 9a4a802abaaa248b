"""A newsletter to readers out of a stream of its session, with a driver that tells little."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.shop.shop import Shop, newsletter

pytestmark = pytest.mark.drivers("mysqldb")

READERS = 2100
"""More than two chunks: so many are read before the first is written."""


def test_a_newsletter_goes_to_all_of_a_stream(shop: Shop) -> None:
    everybody = [f"r{number:05}@readers.example" for number in range(READERS)]
    with shop.engine.begin() as connection:
        rows = [{"customer": address} for address in everybody]
        connection.execute(sa.insert(shop.orders), rows)
    selected = sa.select(shop.orders.c.customer).execution_options(yield_per=7)
    with shop.session() as session:
        stream = session.execute(selected).scalars()
        assert shop.outbox.enqueue_many(newsletter(), stream, session=session) == READERS
        session.commit()
    assert {row.recipient for row in shop.rows(shop.tables.email)} == set(everybody)
