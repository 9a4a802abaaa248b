"""`flask outbox check` stores an email and takes it back: what refuses one is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.flask_ext.management.checks import trial
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.shop.schema import fill, refusing
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops

CODES: dict[str, str] = {"postgresql": "53100", "mariadb": "1114"}


def found(shop: Shop, *levels: str) -> dict[str, str]:
    """Return what `check` finds at these levels, by code; an error is its exit code."""
    run = shop.app.test_cli_runner().invoke(args=["outbox", "check", "--json"])
    findings = parsed(run)
    assert run.exit_code == any(one["level"] == "error" for one in findings)
    return {one["code"]: one["text"] for one in findings if one["level"] in levels}


@pytest.mark.long
@pytest.mark.each_database
@pytest.mark.each_driver
def test_an_email_of_check_is_taken_back(shop: Shop) -> None:
    shop.enqueue()
    told = found(shop, "warn", "error")
    assert "trial-email" not in told
    assert "read-only" not in told
    tables = shop.tables
    counts = [shop.count(each) for each in (tables.email, tables.content, tables.counter)]
    assert counts == [1, 1, 0]
    assert shop.enqueue().created


@pytest.mark.databases("postgresql", "mariadb")
def test_a_full_disk_is_an_error(shop: Shop) -> None:
    code = CODES[shop.engine.dialect.name]
    with refusing(shop.engine, "outbox_content", "TRUE", event="INSERT", code=code):
        told = found(shop, "error")["trial-email"]
    assert "has no room left on its disk" in told
    assert code in told
    assert "make room there" in told


@pytest.mark.long
@pytest.mark.each_database
def test_what_refuses_an_email_is_told_in_the_databases_words(shop: Shop) -> None:
    with refusing(shop.engine, "outbox_email", "NEW.lane = NEW.lane", event="INSERT"):
        told = found(shop, "error")["trial-email"]
    assert "refuses to store an email" in told
    assert "outbox.invalid" not in told
    assert "\n" not in told


@pytest.mark.databases("mariadb")
@pytest.mark.long
def test_a_mariadb_that_is_read_only_is_an_error(shops: Shops) -> None:
    with MariaDB(durable=False) as server:
        url = sa.make_url(server.new_database(fill))
        admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.exec_driver_sql("CREATE USER app IDENTIFIED BY 'pw'")
            connection.exec_driver_sql(f"GRANT ALL ON {url.database}.* TO app")
            shop = shops.open_on(sa.create_engine(url.set(username="app", password="pw")))
            assert "read-only" not in found(shop, "error")
            connection.exec_driver_sql("SET GLOBAL read_only = ON")
            told = found(shop, "warn", "error")
        admin.dispose()
    assert "takes no writes" in told["read-only"]
    assert "1290" in told["read-only"]
    assert "SET GLOBAL read_only = OFF" in told["read-only"]
    assert "replica" not in told, "its remedy would be wrong"


@pytest.mark.databases("sqlite")
def test_a_file_that_may_not_be_written_is_an_error(shops: Shops, database_url: str) -> None:
    path = Path(str(sa.make_url(database_url).database))
    engine = sa.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    told = found(shops.open_on(engine), "error")["read-only"]
    assert "takes no writes" in told
    engine.dispose()


@contextmanager
def writing(engine: sa.Engine, statement: str) -> Iterator[None]:
    """Hold a transaction of somebody else's that has done this."""
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
        yield
        connection.rollback()
        if engine.dialect.name == "mariadb":
            connection.exec_driver_sql("UNLOCK TABLES")


LOCKS = {
    "postgresql": "LOCK TABLE outbox_email IN SHARE MODE",
    "mariadb": "LOCK TABLES outbox_email READ",
}


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_lock_on_the_tables_is_a_warning(shop: Shop) -> None:
    """As of a CREATE INDEX, or a backup, which ends some time."""
    with writing(shop.engine, LOCKS[shop.engine.dialect.name]):
        assert "holds a lock for somebody else" in found(shop, "warn")["trial-email"]


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_writer_of_sqlite_is_told_as_soon_as_requests_fail_for_it(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the outbox's own transactions wait, and with the schema examined beside it."""
    monkeypatch.setattr(trial, "WRITER", 0.5)
    shop = shops.open(OUTBOX_LEASE=36_000.0)  # its own transactions wait for a third of that
    with writing(shop.engine, "BEGIN IMMEDIATE"):
        told = found(shop, "error")
    assert "is locked by another writer, so nothing can be enqueued" in told["trial-email"]
    assert "SQLITE_BUSY" in told["trial-email"]
    assert "database" not in told, "reads do not wait"
    assert "trial-email" not in found(shop, "warn", "error")


MODES = ["ORACLE", "EMPTY_STRING_IS_NULL"]


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_of_mariadb_that_breaks_statements_is_named(
    shops: Shops, database_url: str, mode: str
) -> None:
    arguments: dict[str, Any] = {"init_command": f"SET SESSION sql_mode = '{mode}'"}
    shop = shops.open_on(sa.create_engine(database_url, connect_args=arguments))
    told = found(shop, "error")["session-settings"]
    assert f"sql_mode has {mode}" in told


@pytest.mark.databases("postgresql")
@pytest.mark.each_driver
@pytest.mark.parametrize("style", ["German", "SQL, DMY"])
def test_a_style_of_dates_that_the_driver_cannot_read_is_named(
    shops: Shops, database_url: str, style: str
) -> None:
    url = sa.make_url(database_url)
    shop = shops.open_on(sa.create_engine(url))
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {url.database} SET datestyle = {style}")
    shop.engine.dispose()
    if url.get_driver_name() == "psycopg2":  # it sets its own style
        assert "session-settings" not in found(shop, "error")
        return
    told = found(shop, "error")["session-settings"]
    assert f"DateStyle is {style}" in told
    assert told in runner(shop)("health", code=1).output
