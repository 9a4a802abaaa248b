"""A person's `LOCK TABLE`, or a migration, holds a whole table: who looks is told, and by whom."""

from __future__ import annotations

import pytest

from outbox.flask_ext.management.checks import long_waits
from tests.integration.dashboard.desk import Desk
from tests.integration.table_locks import awaited, locked
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql")


@pytest.mark.parametrize("command", ["check", "health"])
def test_who_has_locked_a_table_is_told(shop: Shop, command: str) -> None:
    with locked(shop) as told:
        output = runner(shop)(command, code=1).output
    assert "holds a lock for somebody else (LockNotAvailable 55P03)" in output
    assert f"{told}: have its transaction end, or SELECT pg_terminate_backend(" in output


def test_a_watch_tells_and_tells_when_it_has_ended(shop: Shop) -> None:
    with locked(shop) as told:
        health = shop.outbox.watch()
        assert health is not None
        assert any(one.startswith(told) for one in health.problems)
        assert shop.outbox.watch() is None
    assert [shop.outbox.watch() is None for _ in range(2)] == [False, True]


def test_the_metrics_say_that_the_tables_cannot_be_read(shop: Shop) -> None:
    with locked(shop):
        assert "outbox_up 0" in shop.outbox.metrics()


@pytest.mark.long
def test_each_page_of_the_dashboard_says_so(shops: Shops) -> None:
    desk = Desk(shops)
    with locked(desk.shop) as told:
        for path in ("/", "/messages"):
            page = desk.get(path, 503).text
            assert "A table of the outbox is locked" in page
            assert told.replace("'", "&#39;") in page
    desk.get("/")


def test_who_stands_in_a_queue_is_not_blamed(shop: Shop) -> None:
    """A report reads, and a migration waits behind it: so does everybody else behind that."""
    alter = "ALTER TABLE outbox_email ADD COLUMN more integer"
    with (
        locked(shop, "ACCESS SHARE") as told,
        awaited(shop, lambda: _execute(shop, alter)),
    ):
        problems = shop.outbox.health().problems
    assert [one.startswith(told) for one in problems] == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("is_long", [False, True])
def test_a_lock_that_lets_reads_pass_is_told_where_others_wait(
    shops: Shops, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `CREATE INDEX` does without CONCURRENTLY: enqueues wait, and workers."""
    desk = Desk(shops)
    shop = desk.shop
    monkeypatch.setattr(long_waits, "LEAST", 1)
    monkeypatch.setattr(long_waits, "LONG", 1 if is_long else 1000)
    with locked(shop, "SHARE") as told:
        assert shop.outbox.health().healthy
        assert not [one for one in shop.outbox.health().warnings if told in one]
        with awaited(shop, shop.enqueue, seconds=1.5):
            health = shop.outbox.health()
            page, check = desk.get("/").text, runner(shop)("check", code=1).output
    found = health.problems if is_long else health.warnings
    assert [one for one in found if one.startswith(f"{told}, and statements have waited for ")]
    assert health.healthy is not is_long
    assert told.replace("'", "&#39;") in page
    assert f"warn   {told}" in check


def _execute(shop: Shop, statement: str) -> None:
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(statement)
