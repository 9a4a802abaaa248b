"""An app factory that used the database before Celery forked its workers."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from tests.support.servers.brokers.broker import Broker
from tests.support.servers.smtp.catcher import Catcher
from tests.support.system.system import WINDOW, running

pytestmark = [pytest.mark.long, pytest.mark.one_broker("rabbitmq")]

MAILS = 16 * WINDOW
PROCESSES = 3


@pytest.mark.databases("postgresql")
def test_no_process_of_a_worker_uses_the_connection_of_its_parent(
    database_url: str, broker: Broker, catcher: Catcher
) -> None:
    settings = {"OUTBOX_BATCH": WINDOW, "OUTBOX_SLOTS": PROCESSES, "CREATE_ALL": True}
    with running(database_url, broker, catcher, **settings) as system:
        system.newsletter(MAILS)
        worker = system.worker(concurrency=PROCESSES)
        system.sweep()
        system.wait_sent(MAILS)
        assert "Error" not in worker.printed()
        assert set(catcher.copies().values()) == {1}
        assert system.counters() == {}
        email = system.runtime.tables.email.c
        each = select(email.attempts, email.crashes).distinct()
        charged = system.runtime.database.read(lambda c: c.execute(each).all())
        assert [tuple(row) for row in charged] == [(1, 0)]
