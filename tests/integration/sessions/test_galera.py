"""A session on another node of the same Galera cluster is on the outbox's database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from outbox.store.mysql.server import identity
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, free_port

pytestmark = pytest.mark.long

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")


@pytest.fixture(scope="module")
def node() -> Iterator[MariaDB]:
    """The first node of a cluster."""
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
