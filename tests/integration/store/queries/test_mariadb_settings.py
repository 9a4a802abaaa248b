"""What `flask outbox check` tells of a MariaDB whose own settings are a risk.

The settings are those of the whole server, so the tests have one of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.support.servers.databases.mariadb import MariaDB
from tests.support.shop import schema
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.long

OPTIONS = ("--server-id=1", "--log-bin=binlog", "--binlog-format=STATEMENT")


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    """A MariaDB that writes statements to its binary log."""
    with MariaDB(durable=False, options=OPTIONS) as server:
        yield server


@pytest.fixture
def shops(server: MariaDB) -> Iterator[Shops]:
    """Shops on a fresh database of the server."""
    url = server.new_database(schema.fill)
    shops = Shops(url=url)
    yield shops
    shops.close()
    server.drop_database(url)


def told(shop: Shop, code: str) -> list[tuple[str, str]]:
    """Return the level and the text of each finding with this code."""
    found = parsed(runner(shop)("check", "--json", code=1))
    return [(one["level"], one["text"]) for one in found if one["code"] == code]


def test_a_binary_log_of_statements_stops_each_claim_and_is_told(shops: Shops) -> None:
    shop = shops.open()
    shop.enqueue()
    with pytest.raises(DBAPIError, match="1665"):
        shop.claim()
    [(level, words)] = told(shop, "binary-log")
    assert level == "error"
    assert "binlog_format is STATEMENT" in words

    mixed = {"init_command": "SET SESSION binlog_format = MIXED"}
    mended = shops.open_on(create_engine(shops.url, connect_args=mixed))
    assert len(mended.claim()) == 1
    assert told(mended, "binary-log") == []


def test_a_server_that_may_forget_a_commit_is_told(shops: Shops) -> None:
    shop = shops.open()
    lost = "a committed email can be lost, or sent twice"

    def set_to(flush: int, sync: int) -> list[tuple[str, str]]:
        with shop.engine.begin() as connection:
            connection.execute(text(f"SET GLOBAL innodb_flush_log_at_trx_commit = {flush}"))
            connection.execute(text(f"SET GLOBAL sync_binlog = {sync}"))
        return told(shop, "durability")

    flushed_late = ("warn", f"innodb_flush_log_at_trx_commit is 2, not 1: {lost}")
    synced_late = ("warn", f"sync_binlog is 0, not 1: {lost}")
    assert set_to(2, 0) == [flushed_late, synced_late]
    assert set_to(1, 0) == [synced_late]
    assert set_to(0, 1)[0][1].startswith("innodb_flush_log_at_trx_commit is 0")
    assert set_to(1, 1) == []
    assert set_to(3, 0) == [], "MariaDB flushes each step"
