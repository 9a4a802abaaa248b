"""A task that finds no database says so in one line; whatever else goes wrong is told in full."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery

from tests.support.servers.ports import free_port
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database

ADDRESS = "a@customers.example"


@pytest.fixture
def celery(shop: Shop) -> Iterator[Celery]:
    app = Celery("probe", set_as_current=True)
    shop.app.extensions["celery"] = app
    yield app
    app.close()


def run(celery: Celery, name: str, *args: str) -> Any:
    """Run a task as Celery's worker does, which traces and logs what it raises."""
    return celery.tasks[name].apply(args)


@pytest.mark.parametrize("task", ["outbox.sweep", "outbox.purge"])
def test_an_unreachable_database_is_one_line_without_its_address(
    shops: Shops, shop: Shop, celery: Celery, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    take_away(shops, shop)
    result = run(celery, task)
    told(caplog, result, "OperationalError")
    for private in ("127.0.0.1", "localhost", "/nowhere", "SELECT", ADDRESS):
        assert private not in caplog.text


def test_an_outage_is_told_once_a_minute(
    shops: Shops, shop: Shop, celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    moment = 1000.0
    shop.runtime.clock = lambda: moment
    take_away(shops, shop)
    for seconds, lines in ((0.0, 1), (1.0, 1), (58.0, 1), (1.0, 2), (1.0, 2)):
        moment += seconds
        assert run(celery, "outbox.sweep").successful()
        assert caplog.text.count("outbox.sweep gave up, the database is away") == lines


@pytest.mark.databases("postgresql")
def test_a_pool_without_a_free_connection_is_one_line(
    shops: Shops, shop: Shop, celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    shop.database.engine = sa.create_engine(
        shops.url, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    with shop.database.engine.connect():
        told(caplog, run(celery, "outbox.sweep"), "TimeoutError")
    shop.database.engine.dispose()


def test_a_missing_table_is_told_in_full(
    shop: Shop, celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE outbox_bucket"))
        connection.execute(sa.text("DROP TABLE outbox_lease"))
    result = run(celery, "outbox.sweep")
    assert result.failed()
    assert "Traceback" in caplog.text
    assert "run your migrations" in caplog.text


@pytest.mark.databases("postgresql")
def test_a_row_that_is_refused_is_told_in_full_but_for_the_row(
    shop: Shop, celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL quotes the row that a constraint of the app refuses."""
    with shop.engine.begin() as connection:
        refuse = "ALTER TABLE outbox_email ADD CONSTRAINT own CHECK (status <> 'suppressed')"
        connection.execute(sa.text(refuse))
    shop.outbox.suppress(ADDRESS)
    shop.enqueue(ADDRESS, key="order-1", tag="orders")
    (made,) = shop.claim()
    result = run(celery, "outbox.send", str(made.token))
    assert result.failed()
    assert "CheckViolation 23514" in str(result.result)
    assert "raised unexpected" in caplog.text
    assert "Traceback" in caplog.text
    for told in (caplog.text, result.traceback, repr(result.result)):
        for private in ("Failing row", ADDRESS, "shop@shop.example", "order-1"):
            assert private not in told


def test_missing_tables_are_told_once_a_minute(
    shop: Shop, celery: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE outbox_bucket"))
        connection.execute(sa.text("DROP TABLE outbox_lease"))
    moment = 1000.0
    shop.runtime.clock = lambda: moment
    assert [run(celery, "outbox.sweep").failed() for _ in range(3)] == [True, False, False]
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    moment += 59
    assert run(celery, "outbox.sweep").successful()
    moment += 2
    assert run(celery, "outbox.sweep").failed()


def take_away(shops: Shops, shop: Shop) -> None:
    """Have nobody be where the worker looks for the database."""
    url = sa.make_url(shops.url)
    sqlite = url.get_backend_name() == "sqlite"
    url = url.set(database="/nowhere/outbox.sqlite3") if sqlite else url.set(port=free_port())
    shop.database.engine = sa.create_engine(url)


def told(caplog: pytest.LogCaptureFixture, result: Any, error: str) -> None:
    assert result.successful(), result.traceback
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in warnings] == ["outbox"], caplog.text
    assert error in warnings[0].getMessage()
    assert warnings[0].exc_info is None
