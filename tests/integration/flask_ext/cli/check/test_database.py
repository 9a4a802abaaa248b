"""`flask outbox check`: what it finds of the schema, and of the database's limits."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from outbox.store.connection.database import Database
from outbox.store.queries.inspect_schema import encoding_warnings
from outbox.store.schema.version import VERSION
from tests.integration.flask_ext.cli.check.test_check import run, with_celery
from tests.support.shop.shell import Run, parsed, runner
from tests.support.shop.shop import Shop, Shops

__all__ = ["run"]
pytestmark = pytest.mark.one_database("postgresql")


@pytest.mark.long
def test_check_tells_an_older_schema_from_a_newer_one(shop: Shop, run: Run) -> None:
    with_celery(shop)
    of = " ON outbox_pause" if shop.database.dialect in ("mysql", "mariadb") else ""
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE INDEX ix_outbox_schema_{VERSION + 1} ON outbox_pause (paused_at)"
        )
    versions = f"the database's schema is version {VERSION + 1}, the code's {VERSION}"
    assert f"warn   {versions}: the code is older" in run("check", code=1).output
    with shop.engine.begin() as connection:
        for version in (VERSION, VERSION + 1):
            connection.exec_driver_sql(f"DROP INDEX ix_outbox_schema_{version}{of}")
    versions = f"the database's schema is version 0, the code's {VERSION}"
    assert f"error  {versions}: the database is older" in run("check", code=1).output


def test_check_names_what_is_missing_in_the_schema(shop: Shop, run: Run) -> None:
    with shop.engine.begin() as connection:
        shop.tables.attempt.drop(connection)
        for index in shop.tables.email.indexes:
            if index.name == "ix_outbox_email_tag":
                index.drop(connection)
    texts = [finding["text"] for finding in parsed(run("check", "--json", code=1))]
    assert any("table outbox_attempt is missing" in text for text in texts)
    assert any("index ix_outbox_email_tag is missing" in text for text in texts)


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.each_driver
def test_check_tells_of_an_encoding_that_has_not_every_character(shops: Shops) -> None:
    engine = sa.create_engine(shops.url, connect_args={"client_encoding": "LATIN1"})
    findings = parsed(runner(shops.open_on(engine))("check", "--json", code=1))
    [found] = [one for one in findings if one["code"] == "encoding"]
    assert found["level"] == "warn"
    assert "client_encoding is LATIN1 in this engine's sessions" in found["text"]
    assert "encoding" not in {
        one["code"] for one in parsed(runner(shops.open())("check", "--json", code=1))
    }


@pytest.mark.databases("postgresql")
def test_the_encoding_of_the_database_counts_too(shop: Shop, database_url: str) -> None:
    admin = sa.create_engine(database_url, isolation_level="AUTOCOMMIT")
    name = f"test_{uuid4().hex}"
    latin = sa.create_engine(sa.make_url(database_url).set(database=name))
    with admin.connect() as connection:
        made = f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        connection.exec_driver_sql(made)
        try:
            [text] = encoding_warnings(Database(latin, shop.tables))
        finally:
            latin.dispose()
            connection.exec_driver_sql(f"DROP DATABASE {name}")
    admin.dispose()
    assert text.startswith("the database's encoding is LATIN1")
    assert encoding_warnings(shop.database) == []


@pytest.mark.databases("mariadb")
def test_check_tells_of_a_database_that_takes_no_large_email(shops: Shops) -> None:
    said = [
        runner(shops.open(OUTBOX_MAX_SIZE=size))("check", code=1).output for size in (2**25, 2**26)
    ]
    assert ["max_allowed_packet" in text for text in said] == [False, True]
