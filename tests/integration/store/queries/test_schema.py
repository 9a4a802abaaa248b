"""What `flask outbox check` knows of the database."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, event, make_url

from outbox.store.connection.database import Database
from outbox.store.queries.inspect_schema import (
    Schema,
    durability_warnings,
    inspect_schema,
    replica_warnings,
)
from outbox.store.schema.version import VERSION
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database


def change(shop: Shop, *statements: str) -> Schema:
    """Change the schema by hand, and return what is found then."""
    with shop.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    return inspect_schema(shop.database)


def test_a_complete_schema_has_our_version_and_lacks_nothing(shop: Shop) -> None:
    assert inspect_schema(shop.database) == Schema(version=VERSION)


def test_alembic_finds_no_difference_between_our_tables_and_what_it_made(shop: Shop) -> None:
    """Not in types and defaults either: a migration would be made of it again and again."""
    options = {"compare_server_default": True, "compare_type": True}
    with shop.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, shop.tables.email.metadata) == []


def test_an_older_schema_has_an_older_version_and_tells_what_it_lacks(shop: Shop) -> None:
    of = " ON outbox_pause" if shop.database.dialect in ("mysql", "mariadb") else ""
    older = change(
        shop,
        f"DROP INDEX ix_outbox_schema_{VERSION}{of}",
        "ALTER TABLE outbox_lease DROP COLUMN server",
        "DROP TABLE outbox_counter",
    )
    assert older.version == 0
    assert older.missing == [
        "column outbox_lease.server is missing",
        "table outbox_counter is missing",
    ]


def test_a_newer_schema_has_a_newer_version_and_tells_what_older_code_cannot_fill(
    shop: Shop,
) -> None:
    newer = change(
        shop,
        f"CREATE INDEX ix_outbox_schema_{VERSION + 1} ON outbox_pause (paused_at)",
        "ALTER TABLE outbox_email ADD COLUMN optional INTEGER",
        "ALTER TABLE outbox_email ADD COLUMN filled INTEGER DEFAULT 0 NOT NULL",
    )
    assert newer == Schema(version=VERSION + 1), "such columns do older code no harm"


@pytest.mark.databases("postgresql", "mariadb")  # SQLite adds no such column
def test_a_column_that_older_code_cannot_fill_is_told(shop: Shop) -> None:
    found = change(shop, "ALTER TABLE outbox_email ADD COLUMN demanded INTEGER NOT NULL")
    assert found.demanded == ["outbox_email.demanded"]


@pytest.mark.usual_driver
@pytest.mark.databases("postgresql")
def test_a_postgresql_that_may_forget_a_commit_is_told(shop: Shop, database_url: str) -> None:
    engine = create_engine(database_url)

    @event.listens_for(engine, "connect")
    def forgetful(connection: object, _: object) -> None:
        connection.execute("SET synchronous_commit = off")  # type: ignore[attr-defined]
        connection.commit()  # type: ignore[attr-defined]

    found = durability_warnings(Database(engine, shop.tables))
    engine.dispose()
    assert "PostgreSQL's synchronous_commit is off" in found


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_server_that_keeps_the_locks_of_an_idle_transaction_is_told(
    shops: Shops, database_url: str
) -> None:
    limit: dict[str, dict[str, Any]] = {
        "postgresql": {"options": "-c idle_in_transaction_session_timeout=60000"},
        "mariadb": {"init_command": "SET SESSION idle_transaction_timeout = 60"},
    }
    for arguments in ({}, limit[make_url(database_url).get_backend_name()]):
        shop = shops.open_on(create_engine(database_url, connect_args=arguments))
        told = "if a host vanishes within a transaction" in runner(shop)("check", code=1).output
        assert told is not bool(arguments)


@pytest.mark.databases("mariadb")
def test_a_mariadb_whose_reads_go_to_a_replica_is_told(shop: Shop) -> None:
    """A replica is read-only, for all but its administrator."""
    assert replica_warnings(shop.database) == []
    with MariaDB(durable=False, options=["--read-only"]) as replica:
        engine = create_engine(replica.new_database())
        (told,) = replica_warnings(Database(engine, shop.tables))
        engine.dispose()
    assert "plain reads go to a replica" in told
