"""`flask outbox check`: what it finds of the schema, and of the database's limits."""

from __future__ import annotations

import pytest

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


@pytest.mark.databases("mariadb")
def test_check_tells_of_a_database_that_takes_no_large_email(shops: Shops) -> None:
    said = [
        runner(shops.open(OUTBOX_MAX_SIZE=size))("check", code=1).output for size in (2**25, 2**26)
    ]
    assert ["max_allowed_packet" in text for text in said] == [False, True]
