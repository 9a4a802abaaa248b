"""A session on another node of the same Galera cluster is on the outbox's database.

The outbox's own statements wait for what the other nodes have committed, and no others do.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, MetaData, create_engine, event, make_url

from outbox import Outbox
from outbox.store.mysql.server import identity
from outbox.store.queries.inspect_schema import cluster_lines
from outbox.worker.drain import drain
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

PATIENCE = 60.0
PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")


@pytest.fixture(scope="module")
def node() -> Iterator[MariaDB]:
    """The first node of a cluster."""
    with _node() as server:
        yield server


@contextmanager
def _node() -> Iterator[MariaDB]:
    if not PROVIDER.exists():
        missing("Galera", "apt install galera-4")
    group, transfer = free_port(), free_port()
    options = (
        "--wsrep-on=ON",
        f"--wsrep-provider={PROVIDER}",
        "--wsrep-cluster-address=gcomm://",
        f"--wsrep-node-address={LOOPBACK}:{group}",
        f"--wsrep-provider-options=gmcast.listen_addr=tcp://{LOOPBACK}:{group};"
        f"ist.recv_addr={LOOPBACK}:{transfer}",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    )
    with MariaDB(durable=False, options=options) as server:
        yield server


def test_a_galera_node_is_known_by_its_cluster_and_not_by_its_host(node: MariaDB) -> None:
    """All nodes have this UUID in common. A balancer leads two pools to two of them."""
    url = node.new_database()
    engine = create_engine(url)
    with engine.connect() as connection:
        shown = "SHOW STATUS LIKE 'wsrep_cluster_state_uuid'"
        [(_, cluster)] = connection.exec_driver_sql(shown).all()
        assert identity(connection) == ("galera", cluster, make_url(url).database)
    engine.dispose()


SHOWN = "SELECT @@SESSION.wsrep_sync_wait"


def sync_wait(connection: Connection) -> int:
    return int(connection.exec_driver_sql(SHOWN).scalar_one())


@pytest.mark.parametrize("own", [0, 1, 7])
def test_only_the_outboxs_own_statements_wait_for_other_nodes(node: MariaDB, own: int) -> None:
    """The app's engine has one connection, which both use in turn."""
    with closing(Shops(url=node.new_database())) as shops:
        engine = create_engine(shops.url, pool_size=1, max_overflow=0)

        @event.listens_for(engine, "connect")
        def connect(driver: Any, _: object) -> None:
            with closing(driver.cursor()) as cursor:
                cursor.execute(f"SET SESSION wsrep_sync_wait = {own}")

        shop = shops.open_on(engine)
        for _ in range(2):
            assert shop.database.run(sync_wait) == 7
            with engine.connect() as connection:
                assert sync_wait(connection) == own
            assert shop.database.read(sync_wait) == 7
        engine.dispose()


def test_an_app_may_change_for_what_its_connection_waits_between_two_uses(node: MariaDB) -> None:
    with closing(Shops(url=node.new_database())) as shops:
        engine = create_engine(shops.url, pool_size=1, max_overflow=0)
        shop = shops.open_on(engine)
        for own in (7, 0, 7, 1):
            with engine.connect() as connection:
                connection.exec_driver_sql(f"SET SESSION wsrep_sync_wait = {own}")
            assert shop.database.run(sync_wait) == 7
            with engine.connect() as connection:
                assert sync_wait(connection) == own
        engine.dispose()


def test_emails_are_sent_over_a_node_and_check_names_it(node: MariaDB, catcher: Catcher) -> None:
    with closing(Shops(url=node.new_database())) as shops:
        shop = shops.open(MAIL_PORT=catcher.port)
        for address in addresses(3):
            shop.enqueue(address)
        assert drain(shop.runtime) == 3
        [line] = cluster_lines(shop.database)
        assert "Galera" in line
        assert "wsrep_sync_wait is 7" in line
    assert set(catcher.copies().values()) == {1}


def test_a_node_without_its_cluster_is_told_of_and_not_taken_for_one_that_is_down() -> None:
    with _node() as alone:
        engine = create_engine(alone.new_database())
        app = Flask("shop")
        Outbox().init_app(app, metadata=MetaData(), engine=engine)
        with engine.connect() as connection:
            others = f"gcomm://{LOOPBACK}:{free_port()}?pc.wait_prim=no"
            connection.exec_driver_sql(f"SET GLOBAL wsrep_cluster_address = '{others}'")
            connection.invalidate()  # the node refuses the pool's ROLLBACK, too
        for command in ("check", "health", "stats"):
            told = app.test_cli_runner().invoke(args=["outbox", command])
            assert told.exit_code == 1
            assert "is a Galera node that takes no statement" in told.output
        engine.dispose()


@contextmanager
def behind(shop: Shop) -> Iterator[None]:
    """Have the node lag: what it has to apply next waits for a person's lock on another table."""
    provider = "SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout={}'"
    person, migration, watcher = (shop.engine.connect() for _ in range(3))
    watcher.exec_driver_sql(provider.format("PT2S"))
    watcher.exec_driver_sql("CREATE TABLE held_up (id INT PRIMARY KEY)")
    person.exec_driver_sql("LOCK TABLES held_up READ")
    held_up = "ALTER TABLE held_up ADD COLUMN word INT"

    def waits() -> bool:
        found = watcher.exec_driver_sql("SHOW PROCESSLIST").all()
        return any("metadata lock" in str(one[6]) and one[7] == held_up for one in found)

    with ThreadPoolExecutor(1) as pool:
        altered = pool.submit(migration.exec_driver_sql, held_up)
        try:
            wait_until(waits, PATIENCE, "the migration to wait")
            yield
        finally:
            person.invalidate()
            altered.result(PATIENCE)
            watcher.exec_driver_sql(provider.format("PT30S"))
    for one in (person, migration, watcher):
        one.close()


def test_a_node_that_lags_behind_is_told_of_and_not_taken_for_a_lock(node: MariaDB) -> None:
    with closing(Shops(url=node.new_database())) as shops:
        shop = shops.open()

        def told(command: str) -> str:
            result = shop.app.test_cli_runner().invoke(args=["outbox", command])
            assert result.exit_code == 1
            return result.output

        with behind(shop):
            for command in ("health", "stats", "check"):
                assert "is a Galera node that lags behind" in (found := told(command))
                assert "holds a lock" not in found
        with shop.engine.connect() as person:
            person.exec_driver_sql("LOCK TABLES outbox_email WRITE")
            assert "holds a lock for somebody else" in told("stats")
            person.invalidate()


def test_check_waits_once_for_a_node_that_lags_behind(node: MariaDB) -> None:
    with closing(Shops(url=node.new_database())) as shops:
        shop = shops.open()
        failed = list[str]()
        with behind(shop):
            event.listen(shop.engine, "handle_error", lambda one: failed.append(one.statement))
            shop.app.test_cli_runner().invoke(args=["outbox", "check"])
        assert len(failed) == 1


@pytest.mark.databases("mariadb")
def test_a_server_without_galera_is_no_node(shop: Shop) -> None:
    assert cluster_lines(shop.database) == []


@pytest.mark.databases("mariadb")
def test_two_servers_without_galera_are_two_databases(database_url: str) -> None:
    """They have the same empty UUID."""
    with MariaDB(durable=False) as other:
        found = set()
        for place in (make_url(database_url), make_url(database_url).set(port=other.port)):
            engine = create_engine(place.set(database="mysql"))
            with engine.connect() as connection:
                found.add(identity(connection))
            engine.dispose()
    assert len(found) == 2
