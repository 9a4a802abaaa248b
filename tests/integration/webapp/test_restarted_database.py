"""Visitors notice nothing of a restarted database, and nobody waits for a host that is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import Connection, create_engine, text

from webapp.app import create_app
from webapp.config import from_environment
from webapp.extensions import db

SERVERS = pytest.mark.databases("postgresql", "mariadb")
OTHERS = {
    "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mariadb": "SELECT id FROM information_schema.processlist"
    " WHERE db = database() AND id <> connection_id()",
}


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    """The shop, as its environment configures it."""
    given = {"SECRET_KEY": "of a test", "DATABASE_URL": database_url}
    made = create_app(from_environment(given) | {"OUTBOX_NUDGE": False})
    made.test_cli_runner().invoke(args=["init-db"])
    yield made
    with made.app_context():
        db.engine.dispose()


@pytest.mark.long
@SERVERS
def test_a_visitor_after_a_restart_of_the_server_gets_the_page(
    app: Flask, database_url: str
) -> None:
    client = app.test_client()
    assert client.get("/").status_code == 200
    engine = create_engine(database_url)
    with engine.begin() as connection:
        assert cut_others(connection) >= 1, "the shop keeps no connection"
    engine.dispose()
    assert client.get("/").status_code == 200


def cut_others(connection: Connection) -> int:
    """End all other connections to this database, as a restart does; return how many there were."""
    name = connection.dialect.name
    found = connection.scalars(text(OTHERS[name])).all()
    if name == "mariadb":
        for number in found:
            connection.execute(text(f"KILL {number:d}"))
    return len(found)


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_host_that_vanishes_is_given_up_within_a_minute(app: Flask) -> None:
    with app.app_context(), db.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        given = driver.info.get_parameters()
    assert int(given["connect_timeout"]) <= 10
    waits = (int(given[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    idle, interval, count = waits
    assert idle + interval * count <= 60
    assert 0 < int(given["tcp_user_timeout"]) <= 60_000
