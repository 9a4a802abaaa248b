"""A batch asks once who of its recipients gets no email, whatever the length of the lists."""

from __future__ import annotations

from typing import Any

import pytest

from outbox.store.control.barring.barred import barred_among
from tests.integration.store.queries.plans.generic_plans import Look, each, plans, statements
from tests.support.shop.shop import Shop, Shops, addresses

LISTED = 20_000
ADA = "Ada@customers.example"

FILL = """
INSERT INTO outbox_suppression (address, reason, created_at)
SELECT md5(g::text) || '@gone.example', 'by hand', now() FROM generate_series(1, {rows}) g
"""
BURY = """
INSERT INTO outbox_erased (digest, secret_id, erased_at)
SELECT sha256(g::text::bytea), 'of-old', now() FROM generate_series(1, {rows}) g
"""
TABLES = {"outbox_suppression": FILL, "outbox_erased": BURY}


@pytest.fixture
def shop(shops: Shops) -> Shop:
    return shops.open(SECRET_KEY="a secret of the app")


def asked(count: int) -> Look:
    """Return the look at so many addresses."""
    among = addresses(count)
    return lambda shop: shop.database.run(lambda c: barred_among(c, shop.database, among))


@pytest.fixture
def long_lists(shop: Shop) -> Shop:
    with shop.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table, fill in TABLES.items():
            connection.exec_driver_sql(fill.format(rows=LISTED))
            connection.exec_driver_sql(f"VACUUM (ANALYZE) {table}")
    return shop


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("table", TABLES)
def test_each_address_is_a_probe_of_the_primary_key(long_lists: Shop, table: str) -> None:
    nodes = [node for plan in plans(long_lists, asked(400)) for node in each(plan)]
    (scan,) = [node for node in nodes if node.get("Relation Name") == table]
    assert scan["Node Type"] in ("Index Scan", "Index Only Scan")
    assert scan["Index Name"] == f"{table}_pkey"
    assert "= ANY" in scan["Index Cond"]
    assert "Filter" not in scan


@pytest.mark.databases("postgresql")
def test_the_statement_is_the_same_for_any_number_of_addresses(shop: Shop) -> None:
    few, many = (statements(shop, asked(count)) for count in (3, 400))
    assert [text for text in few if "outbox_" in text] == [t for t in many if "outbox_" in t]


@pytest.mark.each_database
def test_addresses_with_quotes_and_backslashes_are_found_among_many(shop: Shop) -> None:
    strange = ['"a\\"b"@customers.example', '"c\\\\d,{}"@customers.example', "NULL@x.example"]
    for address in strange:
        shop.outbox.suppress(address)
    found = shop.database.run(
        lambda c: barred_among(c, shop.database, [*addresses(1500), *strange])
    )
    assert found == {address.lower() for address in strange}


@pytest.mark.each_database
@pytest.mark.parametrize("listed", [True, False])
def test_a_batch_asks_only_the_list_on_which_somebody_is(shop: Shop, listed: bool) -> None:
    shop.enqueue(ADA)
    (made,) = shop.claim()
    shop.outbox.suppress("bob@customers.example") if listed else shop.outbox.erase("bob@x.example")
    seen = statements(shop, lambda shop: started(shop, made.token))
    lists = [text for text in seen if "outbox_lease" not in text]
    assert sum("outbox_suppression" in text for text in lists) == listed
    assert sum("outbox_erased" in text for text in lists) == (not listed)


def started(shop: Shop, token: Any) -> None:
    batch = shop.start(token)
    assert batch is not None
    assert [email.envelope.recipients for email in batch.emails] == [(ADA,)]
    assert not batch.erased
