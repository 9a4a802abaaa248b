"""An email that the database does not let go stays alone: a purge removes all the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox.store.retention import walk
from outbox.store.retention.stragglers import AGAIN
from tests.integration.store.purge.test_purge_run import DAY, purged, stragglers, withdrawn
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop
from tests.support.shop.steps.purged import bared

pytestmark = pytest.mark.databases("postgresql", "mariadb")

MANY = 9


@pytest.fixture
def old(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop with emails past their retention, and a table whose rows point to some of them."""
    monkeypatch.setattr(walk, "CHUNK", MANY - 3)
    withdrawn(shop, MANY)
    shop.later(DAY + 1)
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE invoices"
            " (email_id BIGINT PRIMARY KEY, FOREIGN KEY (email_id) REFERENCES outbox_email (id))"
        )
    yield shop
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE invoices")


def point_to(shop: Shop, *ids: int) -> None:
    with shop.engine.begin() as connection:
        for email_id in ids:
            connection.exec_driver_sql(f"INSERT INTO invoices VALUES ({email_id})")


def left(shop: Shop) -> list[int]:
    return [row.id for row in shop.rows(shop.tables.email)]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.long
@pytest.mark.parametrize("places", [[0], [4], [MANY - 1], [0, 1, 7], list(range(MANY))])
def test_an_email_that_another_table_points_to_stays_alone(
    old: Shop, places: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    kept = [left(old)[place] for place in places]
    point_to(old, *kept)
    assert purged(old) == MANY - len(kept)
    assert left(old) == stragglers(old) == kept
    assert old.count(old.tables.content) == 1
    assert "could not be purged" in told(caplog)[0]
    assert f"email {kept[0]} first" in told(caplog)[0]


@pytest.mark.databases("postgresql")
def test_a_key_that_is_checked_at_the_commit_only_keeps_no_other_email(old: Shop) -> None:
    with old.engine.begin() as connection:
        connection.exec_driver_sql(
            "ALTER TABLE invoices ALTER CONSTRAINT invoices_email_id_fkey"
            " DEFERRABLE INITIALLY DEFERRED"
        )
    kept = left(old)[2]
    point_to(old, kept)
    assert purged(old) == MANY - 1
    assert left(old) == stragglers(old) == [kept]


@pytest.mark.long
def test_it_is_tried_again_a_day_later_and_not_by_each_purge(
    old: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    kept = left(old)[2]
    point_to(old, kept)
    purged(old)
    purged(old)
    assert len(told(caplog)) == 1
    old.later(AGAIN + 1)
    purged(old)
    assert len(told(caplog)) == 2
    with old.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM invoices")
    assert purged(old) == 0
    old.later(AGAIN + 1)
    assert purged(old) == 1
    assert old.count(old.tables.content) == 0
    assert stragglers(old) == []


@pytest.mark.long
def test_a_body_that_the_database_does_not_let_go_stays_alone(old: Shop) -> None:
    faulty = left(old)[2]
    with refusing(old.engine, "outbox_email", f"OLD.id = {faulty}"):
        assert bared(old, DAY) == MANY - 1
    old.later(AGAIN + 1)
    assert bared(old, DAY) == 1
