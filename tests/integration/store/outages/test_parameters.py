"""A list of any length goes to the database in statements that it takes: none has too many values.

PostgreSQL takes 65,535 parameters, SQLite 32,766; a build of SQLite may take more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import event

from outbox.domain.header.address import MAX_RECIPIENTS
from outbox.domain.scheduling.token_bucket import Rate
from outbox.store.connection import list_parts as module
from outbox.store.connection.list_parts import PART, parts
from outbox.store.control import suppression
from outbox.store.control.rate_limits import take
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

LIMITS = {"sqlite": 32_766, "postgresql": 65_535}

_MORE_RECIPIENTS = f"""
INSERT INTO outbox_recipient (email_id, position, address, status)
WITH RECURSIVE places (n) AS (
    SELECT 2 UNION ALL SELECT n + 1 FROM places WHERE n < {MAX_RECIPIENTS - 1}
)
SELECT e.id, n, 'r' || e.id || '-' || n || '@x.example', 'pending' FROM outbox_email e, places
"""


@pytest.fixture
def strict(shop: Shop) -> Iterator[Shop]:
    """A shop on a database that takes no more values than every build of it does."""

    @event.listens_for(shop.engine, "connect")
    def limit(connection: object, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, LIMITS["sqlite"])

    shop.engine.dispose()
    yield shop
    event.remove(shop.engine, "connect", limit)


@pytest.mark.long
@pytest.mark.databases("sqlite", "postgresql")
def test_a_batch_with_more_recipients_than_a_statement_takes_is_started(strict: Shop) -> None:
    shop = strict
    count = LIMITS[shop.database.dialect] // MAX_RECIPIENTS + 1
    emails = [shop.enqueue("a@x.example", "b@x.example") for _ in range(count)]
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(_MORE_RECIPIENTS)
        connection.exec_driver_sql(f"UPDATE outbox_email SET recipients = {MAX_RECIPIENTS}")
    last = f"r{emails[-1].id}-{MAX_RECIPIENTS - 1}@x.example"
    shop.database.run(lambda c: suppression.suppress(c, shop.database, last, "asked"))
    (made,) = shop.claim()
    batch = shop.start(made.token)
    assert batch is not None
    assert [len(mail.envelope.recipients) for mail in batch.emails] == [
        *[MAX_RECIPIENTS] * (count - 1),
        MAX_RECIPIENTS - 1,
    ]
    assert batch.emails[-1].suppressed == {last}


def test_of_very_many_lapsed_leases_each_is_suspected(
    strict: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = strict
    monkeypatch.setattr(module, "PART", 2)
    for _ in range(5):
        shop.enqueue()
        shop.started()
    assert shop.rescue() == 5


def test_permits_are_taken_of_any_number_of_buckets(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", 2)
    rate = Rate(permits=1, seconds=60.0)
    wants = {f"domain:{number}.example": (rate, 1) for number in range(5)}
    assert take(shop.database, wants) == 0.0
    assert take(shop.database, wants) > 0.0
    assert shop.count(shop.tables.bucket) == 5


def test_parts_are_short_enough_and_together_the_whole() -> None:
    items = list(range(2 * PART + 1))
    found = list(parts(items))
    assert [len(part) for part in found] == [PART, PART, 1]
    assert [item for part in found for item in part] == items
    assert list(parts([])) == []
