"""A task that gives up tells what a person has to look at: a lock and a conflict are no outage."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from outbox.worker.tasks import outage_in_a_line, sweep
from tests.integration.flask_ext.cli.check.test_check import with_celery
from tests.support.servers.ports import free_port
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql")

UPDATE = sa.text("UPDATE outbox_email SET priority = priority")


def locked(engine: Engine) -> None:
    with engine.connect() as person, engine.connect() as ours:
        person.execute(UPDATE)
        ours.execute(sa.text("SET LOCAL lock_timeout = '10ms'"))
        ours.execute(UPDATE)


def conflicting(engine: Engine) -> None:
    with engine.connect() as ours, engine.begin() as person:
        ours.execution_options(isolation_level="REPEATABLE READ")
        ours.execute(sa.text("SELECT 1 FROM outbox_email"))
        person.execute(UPDATE)
        person.commit()
        ours.execute(UPDATE)


def away(engine: Engine) -> None:
    sa.create_engine(engine.url.set(port=free_port())).connect()


@pytest.mark.parametrize(
    ("meet", "told"),
    [
        (locked, "others hold a lock that it needs (LockNotAvailable 55P03)"),
        (conflicting, "READ COMMITTED suits a worker's role (SerializationFailure 40001)"),
        (away, "the database is away (OperationalError"),
    ],
)
def test_the_line_tells_why_a_sweep_gave_up(
    shop: Shop, meet: object, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop.enqueue()
    with_celery(shop)
    assert callable(meet)
    with outage_in_a_line(sweep):
        meet(shop.engine)
    assert len(caplog.records) == 1
    assert "outbox: outbox.sweep gave up, " in caplog.text
    assert told in caplog.text


def test_what_else_a_task_meets_is_told_beside_an_outage(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    with_celery(shop)
    monkeypatch.setattr(shop.runtime, "clock", lambda: 1000.0)
    for meet in (away, locked, away, conflicting, locked):
        with outage_in_a_line(sweep):
            meet(shop.engine)
    told = ["the database is away", "others hold a lock", "READ COMMITTED"]
    assert [caplog.text.count(each) for each in told] == [1, 1, 1]
