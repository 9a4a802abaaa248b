"""Copies of live databases, made by each database's own tools, mail nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from outbox import ConfigurationError
from outbox.worker.drain import drain
from tests.integration.instance import live
from tests.integration.instance.copies import PhysicalCopy, copy_mariadb, copy_postgresql
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop import schema
from tests.support.shop.shop import Shop, Shops


@contextmanager
def opened(url: str, catcher: Catcher, **config: Any) -> Iterator[Shop]:
    shops = Shops(url=url)
    try:
        yield shops.open(MAIL_PORT=catcher.port, **config)
    finally:
        shops.close()


def _read_only(url: str) -> str:
    """Return the URL of connections that are read-only by a setting."""
    options = {"options": "-c default_transaction_read_only=on"}
    return sa.make_url(url).update_query_dict(options).render_as_string(hide_password=False)


def left(shop: Shop, catcher: Catcher) -> int:
    """Return how many emails leave, in a day, where everything is run that could send them."""
    before = len(catcher.emails)
    for _ in range(3):
        drain(shop.runtime)
        shop.later(43_200)
    return len(catcher.emails) - before


def why(shop: Shop) -> str:
    return shop.outbox.health().problems[0]


@pytest.fixture
def server() -> Iterator[Postgres]:
    with Postgres(durable=False) as started:
        yield started


@pytest.mark.long
def test_a_dump_loaded_into_another_cluster_or_database_sends_nothing(
    server: Postgres, catcher: Catcher
) -> None:
    source = server.new_database(schema.fill)
    with opened(source, catcher) as shop:
        live.fill(shop)
    beside = server.new_database()
    copy_postgresql(server, source, beside)
    with opened(beside, catcher) as copy:
        assert left(copy, catcher) == 0
        assert "in another database, or were loaded from a dump" in why(copy)
    with opened(server.copy_of(source), catcher) as copy:  # CREATE DATABASE … TEMPLATE
        assert left(copy, catcher) == 0
    with Postgres(durable=False) as other:
        away = other.new_database()
        copy_postgresql(server, source, away)
        with opened(away, catcher) as copy:
            assert left(copy, catcher) == 0
            assert "on another database server" in why(copy)
            assert copy.outbox.restored().held == 4
            assert left(copy, catcher) == 0
            assert copy.outbox.release(tag="orders").emails == 2
            assert left(copy, catcher) == 2


@pytest.mark.long
def test_a_dump_loaded_over_the_original_stops_a_process_that_runs_on(
    server: Postgres, catcher: Catcher
) -> None:
    url = server.new_database(schema.fill)
    with opened(url, catcher) as shop:
        live.fill(shop)
        saved = server.new_database()
        copy_postgresql(server, url, saved)
        with shop.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        with pytest.raises(ConfigurationError):
            drain(shop.runtime)
        copy_postgresql(server, saved, url)
        later = shop.runtime.clock() + 10.0
        shop.runtime.clock = lambda: later
        assert left(shop, catcher) == 0
        assert "loaded from a dump" in why(shop)


@pytest.mark.long
def test_a_copied_data_directory_sends_nothing_under_another_name(
    server: Postgres, catcher: Catcher
) -> None:
    source = server.new_database(schema.fill)
    with opened(source, catcher, OUTBOX_INSTANCE="production") as shop:
        live.fill(shop)
    server.stop()
    with (
        PhysicalCopy(server) as copied,
        opened(copied.url(source), catcher, OUTBOX_INSTANCE="staging") as copy,
    ):
        assert left(copy, catcher) == 0
        assert "'staging'" in why(copy)


@pytest.mark.long
def test_a_backup_that_was_restored_to_an_earlier_moment_sends_nothing_under_its_own_name(
    server: Postgres, catcher: Catcher
) -> None:
    source = server.new_database(schema.fill)
    with opened(source, catcher, OUTBOX_INSTANCE="production") as shop:
        live.fill(shop)
    server.stop()
    with (
        PhysicalCopy(server, signal="recovery") as copied,
        opened(copied.url(source), catcher, OUTBOX_INSTANCE="production") as copy,
    ):
        copy.later(3600)
        assert left(copy, catcher) == 0
        assert "restored to an earlier moment" in why(copy)


@pytest.mark.long
def test_a_standby_that_takes_over_at_once_goes_on_and_says_so(
    server: Postgres, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    source = server.new_database(schema.fill)
    with opened(source, catcher) as shop:
        drain(shop.runtime)
    server.stop()
    with (
        PhysicalCopy(server, signal="recovery") as promoted,
        opened(promoted.url(source), catcher) as shop,
    ):
        shop.enqueue()
        assert drain(shop.runtime) == 1
        assert [one.getMessage() for one in caplog.records] == [
            "outbox: another database server took over; results of its last moments may be lost"
        ]
        shop.later(86_400)
        shop.runtime.instance.forget()
        shop.enqueue()
        assert drain(shop.runtime) == 1, "the new timeline is noted"


@pytest.mark.long
def test_a_standby_that_was_asked_before_its_promotion_is_asked_again(
    server: Postgres, catcher: Catcher
) -> None:
    source = server.new_database(schema.fill)
    with opened(source, catcher) as shop:
        live.fill(shop)
    server.stop()
    with (
        PhysicalCopy(server, signal="standby") as standby,
        opened(standby.url(source), catcher) as copy,
        opened(_read_only(standby.url(source)), catcher) as also_by_setting,
    ):
        for shop in (copy, also_by_setting):
            checked = shop.app.test_cli_runner().invoke(args=["outbox", "check"])
            output = checked.output
            assert checked.exit_code == 1
            assert "the database is a standby (pg_is_in_recovery)" in output
            assert "takes no writes, so nothing can be enqueued or sent" in output
            assert "plain reads" not in output, "not the reads alone"
            assert "default_transaction_read_only" not in output
        with pytest.raises(DBAPIError):  # it is read-only
            drain(copy.runtime)
        with copy.engine.connect() as connection:
            assert connection.execute(sa.text("SELECT pg_promote()")).scalar_one()
        copy.later(3600)
        assert left(copy, catcher) == 0
        assert "restored to an earlier moment" in why(copy)


@pytest.mark.long
def test_a_dump_of_mariadb_sends_nothing_in_another_database_or_under_another_name(
    catcher: Catcher,
) -> None:
    with MariaDB(durable=False) as server, MariaDB(durable=False) as other:
        source, beside = server.new_database(schema.fill), server.new_database()
        with opened(source, catcher, OUTBOX_INSTANCE="production") as shop:
            live.fill(shop)
        copy_mariadb(source, beside)
        with opened(beside, catcher, OUTBOX_INSTANCE="production") as copy:
            assert left(copy, catcher) == 0
            assert "in another database" in why(copy)
        away = other.new_database()
        copy_mariadb(source, away)
        with opened(away, catcher, OUTBOX_INSTANCE="staging") as copy:
            assert left(copy, catcher) == 0
            assert "'staging'" in why(copy)


@pytest.mark.long
def test_a_copied_file_of_sqlite_sends_nothing_under_another_name(
    tmp_path: Path, catcher: Catcher
) -> None:
    file, twin = tmp_path / "production.db", tmp_path / "staging.db"
    schema.fill(f"sqlite:///{file}")
    with opened(f"sqlite:///{file}", catcher, OUTBOX_INSTANCE="production") as shop:
        live.fill(shop)
    shutil.copy(file, twin)
    with opened(f"sqlite:///{twin}", catcher, OUTBOX_INSTANCE="staging") as copy:
        assert left(copy, catcher) == 0
        assert copy.outbox.restored().held == 4
        assert copy.outbox.release(everything=True).emails == 4
        assert left(copy, catcher) == 4


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_role_that_may_not_ask_for_the_cluster_sends_and_check_says_what_to_set(
    shops: Shops, database_url: str, catcher: Catcher
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    name = f"app_{sa.make_url(database_url).database}"
    with shop.engine.begin() as connection:
        for statement in (
            f"CREATE ROLE {name} LOGIN",
            "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
            f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}",
        ):
            connection.exec_driver_sql(statement)
    url = sa.make_url(database_url).set(username=name)
    with opened(url.render_as_string(hide_password=False), catcher) as limited:
        limited.enqueue()
        assert drain(limited.runtime) == 1
        output = limited.app.test_cli_runner().invoke(args=["outbox", "check"]).output
        assert "ok     the database does not tell which server it is" in output
        assert limited.outbox.health().healthy
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {name}")
        connection.exec_driver_sql(f"DROP ROLE {name}")
